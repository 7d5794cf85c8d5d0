// penstock plan: what of a model will live where on a machine and how fast it will be, without
// loading anything; and what cache policies make of recorded routing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/plan/plan_html.h"
#include "cli/plan/plan_input.h"
#include "cli/plan/plan_json.h"
#include "cli/plan/plan_text.h"
#include "cli/plan/replay_report.h"
#include "os/environment.h"
#include "os/output.h"
#include "os/terminal.h"

namespace penstock {
namespace {

constexpr int kTextColumns = 100;  // where the output is no terminal

struct PlanCommandOptions {
  PlanArguments arguments = {};
  bool json = false;
  std::filesystem::path html = {};
  std::filesystem::path replay = {};  // instead of a model
};

// Whether the terminal shows UTF-8, as setlocale(3) has it: the first of these that is set decides.
bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment_variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos ||
           value.find("utf8") != std::string_view::npos;
  }
  return false;
}

TextStyle text_style() {
  if (!is_terminal(stdout)) return {.columns = kTextColumns};
  return {.columns = terminal_columns(stdout), .has_blocks = has_utf8()};
}

Error error_of(const Shortfall& shortfall, const ModelDemands& demands) {
  return {.kind = ErrorKind::kExhausted,
          .message = fmt::format("{} does not fit: {}", demands.name, shortfall.sentence()),
          .hint = shortfall.fix};
}

Result<void> run_replay(const PlanCommandOptions& options) {
  PENSTOCK_ASSIGN(const RoutingRecord record, RoutingRecord::read(options.replay));
  PENSTOCK_ASSIGN(const auto rows, replay_rows(record, options.arguments.expert_slots));
  if (options.json) {
    fmt::print("{}\n", replay_json(record, rows).dump(2));
  } else {
    fmt::print("{}", replay_text(record, rows, text_style().columns));
  }
  return {};
}

Result<void> run(const PlanCommandOptions& options) {
  if (!options.replay.empty()) return run_replay(options);
  if (options.arguments.model.empty()) {
    return fail(ErrorKind::kInvalidArgument, "MODEL or --replay is required");
  }
  PENSTOCK_ASSIGN(const PlanInput input, read_plan_input(options.arguments));
  for (const std::string& note : input.notes) fmt::print(stderr, "{}\n", note);

  const auto plan = make_plan(input.demands, input.machine, input.limits);
  if (!plan) {
    if (options.json) {
      const OrderedJson json = shortfall_json(plan.error(), input.demands, input.machine);
      fmt::print("{}\n", json.dump(2));
    }
    return std::unexpected(error_of(plan.error(), input.demands));
  }
  const auto alternatives = alternatives_to(*plan, input.demands, input.machine, input.limits);
  if (!options.html.empty()) {
    PENSTOCK_TRY(write_whole_file(options.html,
                                  plan_html(*plan, input.demands, input.machine, alternatives)));
  }
  if (options.json) {
    fmt::print("{}\n", plan_json(*plan, input.demands, input.machine, alternatives).dump(2));
  } else {
    fmt::print("{}", plan_text(*plan, input.demands, input.machine, alternatives, text_style()));
  }
  return {};
}

void add_memory_options(CLI::App& command, PlanArguments& arguments) {
  const auto add = [&](const std::string& name, auto& value, std::string_view type,
                       const std::string& description) {
    return command.add_option(name, value, description)
        ->type_name(std::string(type))
        ->group("Memory");
  };
  add("--gpu", arguments.gpu, "N", "the GPU to plan for: its number, none, or auto [auto]");
  add("--kv-tokens", arguments.kv_tokens, "N",
      "tokens that the KV cache holds, all requests together; what experts leave unless given");
  add("--sequences", arguments.n_sequences, "N",
      "sequences that keep a state of fixed size, where the family has one [4]");
  add("--expert-slots", arguments.expert_slots, "N|P%|all",
      "slots for experts: in VRAM where a GPU is used, else in RAM with all banks on disk");
  add("--pin-budget", arguments.pin_budget, "SIZE",
      "RAM that may be page-locked; 0 for none. PENSTOCK_PIN_BUDGET_GB and PENSTOCK_NO_PINNED=1 "
      "say it too");
  add("--pin-exempt-layers", arguments.pin_exempt_layers, "LAYERS",
      "layers whose banks are not page-locked: a count (7), a share (0.25), 3,7,11, 0-5, "
      "head:4,tail:4");
  add("--cpu-layers", arguments.cpu_layers, "LAYERS", "layers whose experts the CPU computes");
  add("--ram-reserve", arguments.ram_reserve, "SIZE",
      "RAM left to the rest of the system; a sixteenth, at most 4 GiB, unless given");
  add("--vram-reserve", arguments.vram_reserve, "SIZE",
      "VRAM left to others; a sixteenth, at most 512 MiB, unless given");
  add("--hit-rate", arguments.hit_rate, "SHARE",
      "how often an expert was found in its slots, 0 to 1, as measured; unless given, routing is "
      "taken to be uniform");
}

void add_replay_option(CLI::App& command, std::filesystem::path& path) {
  CLI::Option* replay =
      command
          .add_option("--replay", path,
                      "instead of MODEL: routing that bench --record-routing wrote; how often its "
                      "experts would have been in their slots, by policy")
          ->type_name("FILE");
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool goes_with_it = option == replay || name == "--json" || name == "--expert-slots" ||
                              option == command.get_help_ptr();
    if (!goes_with_it) replay->excludes(option);
  }
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Says what of a model will live where on a machine, and how fast it will be.");
  command->add_option("MODEL", options->arguments.model,
                      "a Hugging Face folder, a GGUF file, a pack, or a model's demands as JSON");
  command
      ->add_option(
          "--machine", options->arguments.machine,
          "the description of a machine to plan for, or its profile; this one unless given, "
          "with the rates that penstock doctor measured")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "everything, as JSON");
  command->add_option("--html", options->html, "also writes a page with the layers drawn as a grid")
      ->type_name("FILE");
  add_precision_option(*command, "--cpu-precision",
                       "the arithmetic class of the CPU, which decides how keys and values of a "
                       "checkpoint are kept: exact or fast [fast]",
                       [options](Precision precision) {
                         options->arguments.kv_format =
                             precision == Precision::kExact ? KvFormat::kF32 : KvFormat::kBF16;
                       });
  add_memory_options(*command, options->arguments);
  add_replay_option(*command, options->replay);
  command->footer(
      examples({{"penstock plan Qwen3-30B-A3B/", "on this machine"},
                {"penstock plan model.json --machine shop.json --html plan.html",
                 "a model and a machine from their descriptions, before buying either"},
                {"penstock plan model.gguf --machine pc.json --pin-budget 31 --kv-tokens 65536",
                 "with a driver that page-locks 31 GiB, and a longer context"},
                {"penstock plan --replay routing.jsonl",
                 "what bench --record-routing wrote, by cache policy and number of slots"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
