#include "server/server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "server/connection.h"
#include "server/server_state.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Result<tcp::acceptor> listen(asio::io_context& context, const ServerOptions& options) {
  error_code ec;
  const auto address = asio::ip::make_address(options.host, ec);
  if (ec) {
    return fail(ErrorKind::kInvalidArgument, "\"{}\" is no numeric address to listen on",
                options.host);
  }
  const tcp::endpoint endpoint(address, options.port);
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    return fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", options.host, options.port,
                ec.message());
  }
  return acceptor;
}

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
    PENSTOCK_ASSIGN(tcp::acceptor acceptor, listen(*context_, state_->options));
    port_ = acceptor.local_endpoint().port();
    asio::co_spawn(*context_, accept(std::move(acceptor)), report_exception(state_, "accepting"));
    for (int i = 0; i < state_->options.n_threads; ++i) {
      threads_.emplace_back([this] { context_->run(); });
    }
    return {};
  }

  uint16_t port() const override { return port_; }
  void set_progress(const ProgressUpdate& update) override { state_->set_progress(update); }
  void set_ready(ServedModel model) override { state_->set_ready(std::move(model)); }
  bool drain(std::chrono::milliseconds limit) override { return state_->drain(limit); }

  void stop() override {
    if (!context_) return;
    context_->stop();
    for (std::thread& thread : threads_) thread.join();
    context_.reset();  // with it every connection's coroutine, which lets go of its request
  }

 private:
  asio::awaitable<void> accept(tcp::acceptor acceptor) {
    for (;;) {
      auto [ec, socket] = co_await acceptor.async_accept(asio::make_strand(*context_), kAwait);
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
      const auto strand = socket.get_executor();
      asio::co_spawn(strand, serve_connection(std::move(socket), state_, *std::move(place)),
                     report_exception(state_, "a connection"));
    }
  }

  std::shared_ptr<ServerState> state_;
  std::unique_ptr<asio::io_context> context_ = std::make_unique<asio::io_context>();
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Log log) {
  auto server = std::make_unique<AsioServer>(std::move(options), std::move(log));
  PENSTOCK_TRY(server->start());
  return server;
}

}  // namespace penstock
