// Sends a load to a server and measures every answer: from one thread, since the server may be on
// the same machine and its cores are what is being measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "cli/client/http_client.h"
#include "cli/load/prompts.h"

namespace penstock {

enum class LoadRoute { kChat, kCompletions };

struct LoadTarget {
  ClientOptions connection = {};
  std::string model = {};
  LoadRoute route = LoadRoute::kChat;
  bool ignore_eos = false;
};

// The call for one answer, streamed or whole. Greedy, so that a server's sampler is no part of what
// is compared.
HttpCall load_call(const LoadTarget& target, const LoadRequest& request, bool stream);

// How requests begin. Closed loop: each of `concurrency` clients sends its next one when it has its
// answer. Open loop: at `rate` a second, whatever the server does, with the gaps of a Poisson
// process.
struct LoadShape {
  int concurrency = 0;     // 0: an open loop
  double rate = 0;         // with an open loop
  int64_t n_requests = 0;  // 0: no bound
  double seconds = 0;      // none begins later than this; 0: no bound
  uint64_t seed = 0;       // of the gaps
};

// One request. Times are seconds since the run began; the request's own begin is when it was due,
// which in an open loop may be before it was sent.
struct RequestRecord {
  double began = 0;
  double first = 0;  // output; its end where it had none
  double ended = 0;
  std::vector<double> gaps = {};  // between one chunk of output and the next
  int64_t n_chunks = 0;           // of output
  int64_t input_tokens = 0;       // 0 without usage
  int64_t output_tokens = 0;      // without usage the chunks
  bool has_usage = false;
  std::string failure = {};  // CallFailure::label(); empty: answered whole
  std::string message = {};  // with a failure
};

struct LoadResult {
  std::vector<RequestRecord> records = {};  // in the order they ended
  double seconds = 0;                       // from the first begin to the last end
};

// `request_of(i)` is the i-th request, from 0. Progress counts answers.
LoadResult run_load(const LoadShape& shape, const LoadTarget& target,
                    const std::function<LoadRequest(int64_t)>& request_of,
                    const ProgressFn& progress);

}  // namespace penstock
