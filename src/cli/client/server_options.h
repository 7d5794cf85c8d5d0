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

// --model: which of the server's models.
CLI::Option* add_server_model_option(CLI::App& command, std::string& name);

// For commands that take MODEL or a server: `url` goes without MODEL and the options of loading
// one.
void instead_of_model(CLI::App& command, CLI::Option& url);

// `wanted`, or the first model that the server lists where that is empty. Asks the server in any
// case: one that is not there is told before any work.
Result<std::string> choose_model(BlockingClient& client, const std::string& wanted);

}  // namespace penstock
