#include "cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/version.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cpu/isa.h"

namespace penstock {
namespace {

std::string version_text() {
  std::vector<std::string_view> paths;
  for (const Isa isa : kAllIsas) paths.push_back(to_string(isa));
  const Result<Isa> used = choose_isa();
  return fmt::format("penstock {} ({})\ncompiler   {}\nCPU paths  {}; in use: {}\nGPU paths  {}",
                     version(), commit(), compiler(), fmt::join(paths, " "),
                     used ? std::string(to_string(*used)) : used.error().text(),
                     gpu_architectures());
}

void add_commands(CLI::App& app, Action& action) {
  add_run_command(app, action);
  add_chat_command(app, action);
  add_serve_command(app, action);
  add_ctl_command(app, action);
  add_plan_command(app, action);
  add_doctor_command(app, action);
  add_pack_command(app, action);
  add_eval_command(app, action);
  add_bench_command(app, action);
  add_tokenize_command(app, action);
  add_template_command(app, action);
  for (CLI::App* command : app.get_subcommands(/*filter=*/{})) command->group("Commands");
}

bool is_command(const CLI::App& app, std::string_view word) {
  return std::ranges::any_of(app.get_subcommands(/*filter=*/{}),
                             [&](const CLI::App* command) { return command->get_name() == word; });
}

int usage_error(std::string_view message, std::string_view help_of) {
  fmt::print(stderr, "error: {}\nSee {} --help.\n", message, help_of);
  return kExitUsage;
}

// The command that was being parsed, as people type it: "penstock eval".
std::string named_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command == &app ? "penstock" : "penstock " + command_path(*command);
}

int run_action(const Action& action, const std::string& command) {
  const Result<void> done = action();
  if (done) return 0;
  if (done.error().kind == ErrorKind::kInvalidArgument) {
    return usage_error(done.error().text(), command);
  }
  fmt::print(stderr, "error: {}\n", done.error().text());
  return kExitFailure;
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  CLI::App app("Serves mixture-of-experts language models from wherever their weights fit.",
               "penstock");
  Action action;
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", version_text, "Version, commit, compiler, CPU and GPU paths");
  app.require_subcommand(1);
  app.footer("penstock COMMAND --help says more about a command.");
  add_commands(app, action);

  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
  }
  const std::string_view first = argv[1];
  if (!first.starts_with('-') && !is_command(app, first)) {
    return usage_error(fmt::format("there is no command \"{}\"", first), "penstock");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return usage_error(error.what(), named_command(app));
  }
  // Libraries may throw, bad_alloc above all: the room's edge is here.
  try {
    return run_action(action, named_command(app));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kExitFailure;
  }
}

}  // namespace penstock
