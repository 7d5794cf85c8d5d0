#include "cli/client/server_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/json.h"

namespace penstock {

CLI::Option* add_server_options(CLI::App& command, const std::string& name,
                                const std::string& description, ServerAddress& address) {
  constexpr const char* kGroup = "Server";
  CLI::Option* url =
      command.add_option(name, address.url, description)->type_name("URL")->group(kGroup);
  command
      .add_option("--api-key", address.api_key,
                  "sent as a bearer token; better in the environment as PENSTOCK_API_KEY, where "
                  "other users do not see it")
      ->type_name("KEY")
      ->envname("PENSTOCK_API_KEY")
      ->group(kGroup);
  command
      .add_option("--timeout", address.timeout_seconds,
                  "give an answer up when no byte of it comes for so many seconds")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 86400.0))
      ->group(kGroup);
  return url;
}

Result<ClientOptions> client_options(const ServerAddress& address) {
  ClientOptions options;
  PENSTOCK_ASSIGN(options.url, parse_server_url(address.url));
  const auto is_printable = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::ranges::all_of(address.api_key, is_printable)) {
    return fail(ErrorKind::kInvalidArgument,
                "the API key has characters that no HTTP header may have");
  }
  options.api_key = address.api_key;
  options.silence_timeout = std::chrono::round<std::chrono::milliseconds>(
      std::chrono::duration<double>(address.timeout_seconds));
  options.connect_timeout = std::min(options.connect_timeout, options.silence_timeout);
  return options;
}

Result<std::string> first_model(BlockingClient& client) {
  const auto reply = client.call({.path = "/v1/models"});
  if (!reply) return std::unexpected(reply.error().error());
  const Result<Json> list = parse_json(reply->body);
  if (list && list->is_object() && list->contains("data") && (*list)["data"].is_array()) {
    for (const Json& model : (*list)["data"]) {
      if (model.is_object() && model.contains("id") && model["id"].is_string()) return model["id"];
    }
  }
  return fail(ErrorKind::kIo, "{}: /v1/models lists no model; --model says which to ask for",
              client.url().text);
}

}  // namespace penstock
