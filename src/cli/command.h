// What every command is made of: its options go into the parser, and what it does comes out as an
// action.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"

namespace CLI {
class App;
}

namespace penstock {

// What the command line asked for. kInvalidArgument is a usage error.
using Action = std::function<Result<void>()>;

// Each adds one command; when the command line names it, `action` becomes what it does.
void add_run_command(CLI::App& app, Action& action);
void add_chat_command(CLI::App& app, Action& action);
void add_serve_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);
void add_pack_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_ctl_command(CLI::App& app, Action& action);
void add_tokenize_command(CLI::App& app, Action& action);
void add_template_command(CLI::App& app, Action& action);

// The end of a command's help: what to type, and a word on what it gives.
struct Example {
  std::string_view command;
  std::string_view effect;
};
std::string examples(std::initializer_list<Example> list);

}  // namespace penstock
