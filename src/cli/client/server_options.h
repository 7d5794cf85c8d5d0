// The options that say which server a command talks to, and a client for it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/client/blocking_client.h"
#include "cli/client/http_client.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock {

struct ServerAddress {
  std::string url = {};
  std::string api_key = {};
  double timeout_seconds = 300;
};

// The option `name`, --api-key and --timeout; the help shows them under "Server". Returns the
// first.
CLI::Option* add_server_options(CLI::App& command, const std::string& name,
                                const std::string& description, ServerAddress& address);

// kInvalidArgument when the URL or the key cannot be used.
Result<ClientOptions> client_options(const ServerAddress& address);

// The first model that the server lists.
Result<std::string> first_model(BlockingClient& client);

}  // namespace penstock
