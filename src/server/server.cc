#include "server/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "os/thread_name.h"
#include "server/await.h"
#include "server/connection.h"
#include "server/listener.h"
#include "server/server_state.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

// An exception ends its coroutine, and nothing else.
auto report_exception(std::shared_ptr<ServerState> state, std::string_view where) {
  return [state = std::move(state), where](std::exception_ptr exception) {
    if (!exception) return;
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      state->log.error("{} failed: {}", where, error.what());
    }
  };
}

class AsioServer : public Server {
 public:
  AsioServer(ServerOptions options, Log log)
      : state_(std::make_shared<ServerState>(std::move(options), std::move(log))) {}
  ~AsioServer() override { stop(); }

  Result<void> start() {
    PENSTOCK_ASSIGN(listener_, Listener::open(*context_, state_->options));
    port_ = listener_->port();
    address_ = listener_->address();
    asio::co_spawn(*context_, accept(), report_exception(state_, "accepting"));
    thread_ = std::thread([this] {
      name_this_thread("http");
      context_->run();
    });
    return {};
  }

  uint16_t port() const override { return port_; }
  std::string address() const override { return address_; }
  void set_progress(const ProgressUpdate& update) override { state_->set_progress(update); }
  void set_ready(ServedModel model) override { state_->set_ready(std::move(model)); }
  bool drain(std::chrono::milliseconds limit) override { return state_->drain(limit); }

  void stop() override {
    if (!context_) return;
    context_->stop();
    if (thread_.joinable()) thread_.join();
    state_->request_pool.stop();  // what it runs refers to what the connections hold
    listener_.reset();
    context_.reset();  // with it every connection's coroutine, which lets go of its request
  }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      auto [ec, socket] = co_await listener_->accept(*context_);
      if (ec) {
        state_->log.warn("cannot accept a connection: {}", ec.message());
        // Out of file descriptors, as a rule: trying again at once would only spin.
        asio::steady_timer pause(*context_, std::chrono::milliseconds(100));
        co_await pause.async_wait(kAwait);
        continue;
      }
      auto place = state_->begin_connection();
      if (!place) {
        state_->log.warn("turned a client away: {}", place.error().text());
        continue;
      }
      asio::co_spawn(*context_, serve_connection(std::move(socket), state_, *std::move(place)),
                     report_exception(state_, "a connection"));
    }
  }

  std::shared_ptr<ServerState> state_;
  // One thread for all sockets: for each token it is woken once, whatever the number of answers.
  std::unique_ptr<asio::io_context> context_ = std::make_unique<asio::io_context>(1);
  std::thread thread_;
  std::optional<Listener> listener_;
  uint16_t port_ = 0;
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Log log) {
  auto server = std::make_unique<AsioServer>(std::move(options), std::move(log));
  PENSTOCK_TRY(server->start());
  return server;
}

}  // namespace penstock
