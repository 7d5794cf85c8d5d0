// penstock ctl: looks into a running server, and steers it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/client/ctl_view.h"
#include "cli/client/server_options.h"
#include "cli/command.h"
#include "os/terminal.h"

namespace penstock {
namespace {

struct CtlOptions {
  ServerAddress server = {.url = "http://127.0.0.1:8080", .timeout_seconds = 10};
  std::string action = {};
  std::string id = {};
  bool json = false;
};

struct CtlAction {
  std::string_view name;
  bool takes_id;
  HttpCall call;  // the id, where there is one, goes to the end of its path
  std::string (*view)(const Json& answer, int columns);
};

const std::vector<CtlAction>& actions() {
  static const std::vector<CtlAction> all = {
      {"status", false, {.path = "/v1/status"}, view_status},
      {"requests", false, {.path = "/v1/requests"}, view_requests},
      {"cancel", true, {.method = "DELETE", .path = "/v1/requests/"}, view_cancel},
      {"drop-cache", false, {.method = "POST", .path = "/v1/cache/drop"}, view_drop_cache},
      {"stop", false, {.method = "POST", .path = "/v1/stop"}, view_stop},
  };
  return all;
}

Result<HttpCall> call_of(const CtlAction& action, const std::string& id) {
  if (action.takes_id == id.empty()) {
    return fail(ErrorKind::kInvalidArgument, "{} {}", action.name,
                id.empty() ? "needs the ID of a request" : "takes no ID");
  }
  // An id is part of the path: nothing in it may end or leave that.
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  };
  if (!std::ranges::all_of(id, is_plain)) {
    return fail(ErrorKind::kInvalidArgument,
                "\"{}\" is no ID of a request: see penstock ctl requests", id);
  }
  HttpCall call = action.call;
  call.path += id;
  return call;
}

Result<void> run(const CtlOptions& options) {
  const auto action = std::ranges::find(actions(), options.action, &CtlAction::name);
  PENSTOCK_ASSIGN(HttpCall call, call_of(*action, options.id));
  PENSTOCK_ASSIGN(ClientOptions connection, client_options(options.server));
  BlockingClient client(std::move(connection));
  const auto reply = client.call(std::move(call));
  if (!reply) return std::unexpected(reply.error().error());
  if (options.json) {
    fmt::print("{}\n", reply->body);
    return {};
  }
  const Result<Json> answer = parse_json(reply->body);
  if (!answer) return std::unexpected(answer.error().in(client.url().text));
  fmt::print("{}", action->view(*answer, terminal_columns(stdout)));
  return {};
}

}  // namespace

void add_ctl_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CtlOptions>();
  CLI::App* command = app.add_subcommand("ctl", "Looks into a running server, and steers it.");
  std::vector<std::string> names;
  for (const CtlAction& known : actions()) names.emplace_back(known.name);
  command
      ->add_option("ACTION", options->action,
                   "status: what the server is doing; requests: those it works on; cancel ID: ends "
                   "one of them; drop-cache: forgets the prefixes it keeps; stop: lets running "
                   "answers end, then ends the server")
      ->required()
      ->check(CLI::IsMember(names).description(""));
  command->add_option("ID", options->id, "with cancel: as `requests` shows it");
  command->add_flag("--json", options->json, "the server's answer as it is");
  add_server_options(*command, "--url", "the server; also in the environment as PENSTOCK_URL",
                     options->server)
      ->envname("PENSTOCK_URL")
      ->capture_default_str();
  command->footer(examples({{"penstock ctl status", "the server on this machine's port 8080"},
                            {"penstock ctl --url unix:///run/penstock.sock requests --json",
                             "for a script, over a Unix socket"},
                            {"penstock ctl cancel chatcmpl-0123abcd", "one answer less"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
