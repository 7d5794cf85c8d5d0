#include "server/routes.h"

#include <string>

#include "server/admin_routes.h"
#include "server/chat_handler.h"
#include "server/completion_handler.h"
#include "server/error_response.h"
#include "server/model_routes.h"
#include "server/tokenize_routes.h"

namespace penstock {
namespace {

constexpr Route kRoutes[] = {
    {.path = "/health", .method = "GET", .respond = health},
    {.path = "/metrics", .method = "GET", .respond = metrics},
    {.path = kChatRoute.path, .method = "POST", .answer = &kChatRoute},
    {.path = kCompletionRoute.path, .method = "POST", .answer = &kCompletionRoute},
    {.path = "/tokenize", .method = "POST", .respond = tokenize, .takes_time = true},
    {.path = "/detokenize", .method = "POST", .respond = detokenize, .takes_time = true},
    {.path = "/v1/models", .method = "GET", .respond = list_models},
    {.path = "/v1/models/", .method = "GET", .respond = one_model},
    {.path = "/v1/status", .method = "GET", .respond = server_status},
    {.path = "/v1/requests", .method = "GET", .respond = list_requests},
    {.path = "/v1/requests/", .method = "DELETE", .respond = cancel_request},
    {.path = "/v1/cache/drop", .method = "POST", .respond = drop_cache},
    {.path = "/v1/stop", .method = "POST", .respond = stop_server},
};

bool matches(const Route& route, std::string_view path) {
  if (route.path.ends_with('/')) return path.starts_with(route.path);
  return path == route.path;
}

}  // namespace

std::variant<const Route*, HttpResponse> find_route(const HttpRequest& request) {
  for (const Route& route : kRoutes) {
    if (!matches(route, request.path)) continue;
    if (route.method == request.method) return &route;
    return HttpResponse{
        .status = 405,
        .body = error_body(405, fmt::format("{} takes {}, but the request's method is {}",
                                            route.path, route.method, request.method)),
        .headers = {{"Allow", std::string(route.method)}}};
  }
  return HttpResponse{.status = 404,
                      .body = error_body(404, fmt::format("there is no {}", request.path))};
}

}  // namespace penstock
