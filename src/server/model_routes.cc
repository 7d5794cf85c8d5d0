#include "server/model_routes.h"

#include <optional>
#include <string_view>

#include "base/json.h"
#include "server/error_response.h"

namespace penstock {
namespace {

constexpr std::string_view kModelPath = "/v1/models/";

OrderedJson model_object(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "penstock"},
          {"max_model_len", model.engine->context_limit()}};
}

}  // namespace

HttpResponse health(const HttpRequest&, ServerState& state) {
  if (state.draining()) {
    return {.status = 503, .body = R"({"status":"draining"})", .retry_later = true};
  }
  if (state.model() != nullptr) return {.body = R"({"status":"ok"})"};
  const LoadState load = state.load_state();
  const OrderedJson body = {
      {"status", "loading"}, {"stage", load.stage}, {"progress", load.fraction}};
  return {.status = 503, .body = body.dump(), .retry_later = true};
}

HttpResponse list_models(const HttpRequest&, ServerState& state) {
  const auto model = state.model();
  if (model == nullptr) return error_response(still_loading(state.load_state()));
  const OrderedJson body = {{"object", "list"},
                            {"data", OrderedJson::array({model_object(*model)})}};
  return {.body = body.dump()};
}

HttpResponse one_model(const HttpRequest& request, ServerState& state) {
  const auto model = state.model();
  if (model == nullptr) return error_response(still_loading(state.load_state()));
  const std::string_view name = std::string_view(request.path).substr(kModelPath.size());
  if (name != model->name) return error_response(unknown_model(name, model->name));
  return {.body = model_object(*model).dump()};
}

HttpResponse metrics(const HttpRequest&, ServerState& state) {
  const auto model = state.model();
  std::optional<EngineStats> stats;
  if (model != nullptr) stats = model->engine->stats();
  return {.body = state.metrics.text(stats ? &*stats : nullptr, state.n_connections()),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace penstock
