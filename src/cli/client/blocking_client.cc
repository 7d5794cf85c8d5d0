#include "cli/client/blocking_client.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <utility>

namespace penstock {
namespace {

constexpr auto kStopInterval = std::chrono::milliseconds(50);

}  // namespace

struct BlockingClient::State {
  explicit State(ClientOptions options)
      : url(options.url), client(context.get_executor(), std::move(options)) {}

  ServerUrl url;
  boost::asio::io_context context{1};
  HttpClient client;
};

BlockingClient::BlockingClient(ClientOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
BlockingClient::BlockingClient(BlockingClient&&) noexcept = default;
BlockingClient::~BlockingClient() = default;

const ServerUrl& BlockingClient::url() const { return state_->url; }

CallResult<HttpReply> BlockingClient::call(HttpCall call, BodySink sink,
                                           const std::function<bool()>& stop) {
  std::optional<CallResult<HttpReply>> reply;
  std::exception_ptr thrown;
  boost::asio::co_spawn(state_->context, state_->client.call(std::move(call), std::move(sink)),
                        [&](std::exception_ptr exception, CallResult<HttpReply> result) {
                          thrown = exception;
                          reply = std::move(result);
                        });
  state_->context.restart();
  bool stopped = false;
  while (!reply) {
    state_->context.run_for(kStopInterval);
    if (!reply && stop && !stopped && stop()) {
      state_->client.stop();
      stopped = true;
    }
  }
  if (thrown) std::rethrow_exception(thrown);
  return *std::move(reply);
}

}  // namespace penstock
