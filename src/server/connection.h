// What happens on one client's connection: requests, one after the other, to the routes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/http_stream.h"
#include "server/server_state.h"

namespace penstock {

// `place` is the connection's own among the server's.
boost::asio::awaitable<void> serve_connection(HttpStream::Socket socket,
                                              std::shared_ptr<ServerState> state,
                                              ServerState::Place place);

}  // namespace penstock
