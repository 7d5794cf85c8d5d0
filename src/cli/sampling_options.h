// How an answer's tokens are chosen and when it ends: the options of `run` and `chat`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace CLI {
class App;
}

namespace penstock {

struct AnswerOptions {
  SamplingOptions sampling = {};
  std::optional<uint64_t> seed = {};  // absent: another for each answer
  std::optional<int64_t> max_tokens = {};
  std::vector<std::string> stop = {};
};

// The defaults shown are those in `options`.
void add_answer_options(CLI::App& command, AnswerOptions& options);

Result<GenerationRequest> make_request(const AnswerOptions& options, std::vector<int32_t> prompt);

}  // namespace penstock
