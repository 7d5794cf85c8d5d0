// What a server says about itself and its model: /health, /v1/models, /metrics.
#pragma once

#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

HttpResponse health(const HttpRequest& request, ServerState& state);
HttpResponse list_models(const HttpRequest& request, ServerState& state);
HttpResponse one_model(const HttpRequest& request, ServerState& state);
HttpResponse metrics(const HttpRequest& request, ServerState& state);

}  // namespace penstock
