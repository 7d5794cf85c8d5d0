#include "server/connection.h"

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "server/answer.h"
#include "server/error_response.h"
#include "server/http_stream.h"
#include "server/routes.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

HttpResponse respond(const Route& route, const HttpRequest& request, ServerState& state) try {
  return route.respond(request, state);
} catch (const std::exception& error) {
  return error_response({.kind = ErrorKind::kInternal,
                         .message = fmt::format("{} failed: {}", route.path, error.what())});
}

// False when the connection is to be closed.
asio::awaitable<bool> handle(const std::shared_ptr<HttpStream>& http, const HttpRequest& request,
                             ServerState& state) {
  const bool keep_alive = request.keep_alive && !state.draining();
  auto found = find_route(request);
  if (const Route** route = std::get_if<const Route*>(&found)) {
    if ((*route)->answer != nullptr) {
      co_return co_await answer(http, request, *(*route)->answer, state);
    }
    const auto respond_now = [&, route = *route] { return respond(*route, request, state); };
    if ((*route)->takes_time) {
      found = co_await state.request_pool.run(respond_now);
    } else {
      found = respond_now();
    }
  }
  HttpResponse response = std::get<HttpResponse>(std::move(found));
  const std::function<void()> after = std::move(response.after);
  state.log.info("{} {} {}", request.method, request.path, response.status);
  const bool sent = co_await http->write(request, std::move(response), keep_alive);
  if (after) after();
  co_return sent&& keep_alive;
}

}  // namespace

asio::awaitable<void> serve_connection(HttpStream::Socket socket,
                                       std::shared_ptr<ServerState> state,
                                       [[maybe_unused]] ServerState::Place place) {
  const auto http = std::make_shared<HttpStream>(std::move(socket), state->options, state->access,
                                                 state->metrics);
  for (bool open = true; open;) {
    HttpRead read = co_await http->read();
    if (std::holds_alternative<ConnectionClosed>(read)) co_return;
    if (auto* refusal = std::get_if<HttpResponse>(&read)) {
      state->log.info("answered by its header alone: {}", refusal->status);
      const HttpRequest unreadable;  // named: g++ 12 destroys such a temporary of a co_await twice
      co_await http->write(unreadable, std::move(*refusal), /*keep_alive=*/false);
      open = false;
    } else {
      open = co_await handle(http, std::get<HttpRequest>(read), *state);
    }
  }
  co_await http->close_gently();
}

}  // namespace penstock
