#include "cli/client/server_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/json.h"

namespace penstock {
namespace {

constexpr const char* kGroup = "Server";

}  // namespace

CLI::Option* add_server_options(CLI::App& command, const std::string& name,
                                const std::string& description, ServerAddress& address) {
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

CLI::Option* add_server_model_option(CLI::App& command, std::string& name) {
  return command
      .add_option("--model", name, "which of the server's models; the first it lists unless given")
      ->type_name("NAME")
      ->group(kGroup);
}

void instead_of_model(CLI::App& command, CLI::Option& url) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_group() == "Model") url.excludes(option);
    if (option->get_positional()) option->required(false);
  }
}

Result<std::string> choose_model(BlockingClient& client, const std::string& wanted) {
  const auto reply = client.call({.path = "/v1/models"});
  if (!wanted.empty()) {
    // A server without this route may still serve what is wanted.
    const bool is_there = reply || reply.error().cause == CallFailure::Cause::kRefused;
    if (is_there) return wanted;
  }
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
