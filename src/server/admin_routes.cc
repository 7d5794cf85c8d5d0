#include "server/admin_routes.h"

#include <chrono>
#include <string_view>

#include "base/json.h"
#include "base/version.h"
#include "server/error_response.h"

namespace penstock {
namespace {

constexpr std::string_view kRequestPath = "/v1/requests/";
constexpr std::string_view kJsonType = "application/json";

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::string_view name_of(AnswerStage stage) {
  switch (stage) {
    case AnswerStage::kWaiting:
      return "waiting";
    case AnswerStage::kPrefilling:
      return "prefilling";
    case AnswerStage::kDecoding:
      return "decoding";
  }
  return "waiting";
}

// A web page can have a browser send a POST of its own types without asking first, but not of this
// one.
bool is_json(const HttpRequest& request) {
  const std::string_view type = request.content_type;
  return type.substr(0, type.find(';')) == kJsonType;
}

HttpResponse wants_json(const HttpRequest& request) {
  return {.status = 415,
          .body = error_body(
              415, fmt::format("{} wants \"Content-Type: {}\"", request.path, kJsonType))};
}

std::string_view name_of_state(const ServerState& state) {
  if (state.draining()) return "draining";
  return state.model() == nullptr ? "loading" : "ready";
}

void add_engine(OrderedJson& body, const EngineStats& stats) {
  body["waiting"] = stats.n_waiting;
  body["running"] = stats.n_running;
  body["pages"] = {
      {"total", stats.n_pages}, {"free", stats.n_free_pages}, {"cached", stats.n_cached_pages}};
  body["prefix"] = {{"prompt_tokens", stats.counts.n_prompt_tokens},
                    {"hit_tokens", stats.counts.n_prefix_hit_tokens}};
  body["tokens"] = {{"prefill", stats.counts.n_prefill_tokens},
                    {"decode", stats.counts.n_decode_tokens}};
}

}  // namespace

HttpResponse server_status(const HttpRequest&, ServerState& state) {
  const auto model = state.model();
  OrderedJson body = {{"model", model == nullptr ? OrderedJson(nullptr) : OrderedJson(model->name)},
                      {"version", version()},
                      {"uptime_s", seconds_since(state.begun)},
                      {"state", name_of_state(state)}};
  add_engine(body, model == nullptr ? EngineStats{} : model->engine->stats());
  body["connections"] = state.n_connections();
  return {.body = body.dump()};
}

HttpResponse list_requests(const HttpRequest&, ServerState& state) {
  OrderedJson data = OrderedJson::array();
  for (const auto& answer : state.answers.all()) {
    data.push_back(
        {{"id", answer->id},
         {"route", answer->route},
         {"state", name_of(answer->stage.load(std::memory_order_relaxed))},
         {"prompt_tokens", answer->prompt_tokens},
         {"completion_tokens", answer->completion_tokens.load(std::memory_order_relaxed)},
         {"age_s", seconds_since(answer->begun)}});
  }
  const OrderedJson body = {{"data", std::move(data)}};
  return {.body = body.dump()};
}

HttpResponse cancel_request(const HttpRequest& request, ServerState& state) {
  const std::string_view id = std::string_view(request.path).substr(kRequestPath.size());
  if (!state.answers.cancel(id)) {
    return error_response({.kind = ErrorKind::kNotFound,
                           .message = fmt::format("there is no running request \"{}\"", id)});
  }
  const OrderedJson body = {{"id", id}, {"cancelled", true}};
  return {.body = body.dump()};
}

HttpResponse drop_cache(const HttpRequest& request, ServerState& state) {
  if (!is_json(request)) return wants_json(request);
  const auto model = state.model();
  if (model == nullptr) return error_response(still_loading(state.load_state()));
  const OrderedJson body = {{"pages_freed", model->engine->drop_cache()}};
  return {.body = body.dump()};
}

HttpResponse stop_server(const HttpRequest& request, ServerState& state) {
  if (!is_json(request)) return wants_json(request);
  return {.status = 202, .body = R"({"stopping":true})", .after = state.options.on_stop};
}

}  // namespace penstock
