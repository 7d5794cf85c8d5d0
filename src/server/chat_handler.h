// POST /v1/chat/completions, from the request's body to the last byte of the answer.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

// False when the connection is to be closed.
boost::asio::awaitable<bool> answer_chat(std::shared_ptr<HttpStream> http,
                                         const HttpRequest& request, ServerState& state);

}  // namespace penstock
