// What an operator asks and does (penstock ctl): status, requests, the cache, the server's end.
// Says nothing of what prompts and answers contain.
#pragma once

#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

HttpResponse server_status(const HttpRequest& request, ServerState& state);
HttpResponse list_requests(const HttpRequest& request, ServerState& state);
HttpResponse cancel_request(const HttpRequest& request, ServerState& state);
HttpResponse drop_cache(const HttpRequest& request, ServerState& state);
HttpResponse stop_server(const HttpRequest& request, ServerState& state);

}  // namespace penstock
