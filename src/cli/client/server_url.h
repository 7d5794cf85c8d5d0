// Where a server is: a host and port, or a Unix socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

struct ServerUrl {
  std::string text = {};  // as people read it in messages
  std::string host = {};  // a name or numeric address, IPv6 without brackets; empty: a Unix socket
  uint16_t port = 80;
  std::string socket = {};  // the path of a Unix socket
  std::string prefix = {};  // what comes before "/v1/..." in every path: "" or "/some/where"

  bool is_unix() const { return !socket.empty(); }
  // The Host field of requests.
  std::string authority() const;

  bool operator==(const ServerUrl&) const = default;
};

// "http://127.0.0.1:8080", "http://[::1]:8080/proxy", "unix:///run/penstock.sock". A "/v1" at the
// end is left out: clients of OpenAI's API are often given the address with it. Errors are
// kInvalidArgument.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace penstock
