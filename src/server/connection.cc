#include "server/connection.h"

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/chat_handler.h"
#include "server/error_response.h"
#include "server/http_stream.h"

namespace penstock {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kChatPath = "/v1/chat/completions";
constexpr std::string_view kModelsPath = "/v1/models";

HttpResponse health(const ServerState& state) {
  if (state.draining()) {
    return {.status = 503, .body = R"({"status":"draining"})", .retry_later = true};
  }
  if (state.model() != nullptr) return {.body = R"({"status":"ok"})"};
  const LoadState load = state.load_state();
  const OrderedJson body = {
      {"status", "loading"}, {"stage", load.stage}, {"progress", load.fraction}};
  return {.status = 503, .body = body.dump(), .retry_later = true};
}

OrderedJson model_object(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "penstock"},
          {"max_model_len", model.engine->context_limit()}};
}

HttpResponse models(const ServerState& state, std::string_view path) {
  const auto model = state.model();
  if (model == nullptr) return error_response(still_loading(state.load_state()));
  if (path == kModelsPath) {
    const OrderedJson body = {{"object", "list"},
                              {"data", OrderedJson::array({model_object(*model)})}};
    return {.body = body.dump()};
  }
  const std::string_view name = path.substr(kModelsPath.size() + 1);
  if (name != model->name) return error_response(unknown_model(name, model->name));
  return {.body = model_object(*model).dump()};
}

HttpResponse wrong_method(const HttpRequest& request, std::string allowed) {
  return {.status = 405,
          .body = error_body(405, fmt::format("{} takes {}, but the request's method is {}",
                                              request.path, allowed, request.method)),
          .allow = std::move(allowed)};
}

// The routes that answer at once.
HttpResponse route(const HttpRequest& request, const ServerState& state) {
  const bool is_get = request.method == "GET";
  if (request.path == "/health") return is_get ? health(state) : wrong_method(request, "GET");
  if (request.path == kChatPath) return wrong_method(request, "POST");
  if (request.path == kModelsPath || request.path.starts_with(std::string(kModelsPath) + "/")) {
    return is_get ? models(state, request.path) : wrong_method(request, "GET");
  }
  return {.status = 404, .body = error_body(404, fmt::format("there is no {}", request.path))};
}

// False when the connection is to be closed.
asio::awaitable<bool> handle(const std::shared_ptr<HttpStream>& http, const HttpRequest& request,
                             ServerState& state) {
  const bool keep_alive = request.keep_alive && !state.draining();
  if (request.path == kChatPath && request.method == "POST") {
    co_return co_await answer(http, request, kChatRoute, state);
  }
  HttpResponse response = route(request, state);
  state.log.info("{} {} {}", request.method, request.path, response.status);
  co_return co_await http->write(request, std::move(response), keep_alive) && keep_alive;
}

}  // namespace

asio::awaitable<void> serve_connection(asio::ip::tcp::socket socket,
                                       std::shared_ptr<ServerState> state,
                                       [[maybe_unused]] ServerState::Place place) {
  const auto http = std::make_shared<HttpStream>(std::move(socket), state->options);
  for (bool open = true; open;) {
    HttpRead read = co_await http->read();
    if (std::holds_alternative<ConnectionClosed>(read)) co_return;
    if (auto* refusal = std::get_if<HttpResponse>(&read)) {
      state->log.info("refused a request: {}", refusal->status);
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
