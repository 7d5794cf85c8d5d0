// The client for commands that make one call after another and wait for each.
#pragma once

#include <functional>
#include <memory>

#include "cli/client/call.h"
#include "cli/client/http_client.h"

namespace penstock {

// One thread.
class BlockingClient {
 public:
  explicit BlockingClient(ClientOptions options);
  BlockingClient(BlockingClient&&) noexcept;
  ~BlockingClient();

  // `stop` is asked all the time, also while nothing comes; once it says true the call ends with
  // kStopped.
  CallResult<HttpReply> call(HttpCall call, BodySink sink = {},
                             const std::function<bool()>& stop = {});

  const ServerUrl& url() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
