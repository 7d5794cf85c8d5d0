// penstock bench: a model's tokens a second, a server under load, or the kernels.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench/kernels_command.h"
#include "cli/bench/measure_model.h"
#include "cli/command.h"
#include "cli/load/measure_server.h"

namespace penstock {
namespace {

struct BenchOptions {
  ModelBenchOptions model = {};
  LoadBenchOptions load = {};  // with its URL instead of the model
  bool json = false;
};

Result<void> run(BenchOptions options) {
  options.load.json = options.model.json = options.json;
  if (!options.load.server.url.empty()) return measure_server(options.load);
  if (options.model.model.path.empty()) {
    return fail(ErrorKind::kInvalidArgument, "MODEL or --url is required");
  }
  return measure_model(std::move(options.model));
}

// What measures a model and what measures a server do not go together.
void keep_apart(CLI::App& command, CLI::Option& url) {
  instead_of_model(command, url);
  for (const char* name : {"--prefill", "--decode", "--batch", "--context", "--repetitions",
                           "--chunk", "--text", "--record-routing", "--breakdown"}) {
    url.excludes(command.get_option(name));
  }
  for (CLI::Option* option : command.get_options()) {
    if (option->get_group() == "Load") option->needs(&url);
  }
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measures tokens a second of a model, or of a server under load.");
  add_model_bench_options(*command, options->model);
  command->add_flag("--json", options->json, "JSON with the machine, for bench/results");
  keep_apart(*command, *add_load_options(*command, options->load));
  command->footer(examples(
      {{"penstock bench model.gguf", "a table of prefill 512 and decode 128"},
       {"penstock bench model.gguf --prefill 2048 --decode 0 --threads 1 --json",
        "prefill on one core, for a script"},
       {"penstock bench model.gguf --prefill 0 --batch 8", "eight sequences that decode at once"},
       {"penstock bench model.gguf --breakdown", "and where a step's time goes"},
       {"penstock bench --url http://127.0.0.1:8080 --concurrency 1,4,16",
        "a server with 1, 4 and 16 clients, a row each"},
       {"penstock bench --url http://127.0.0.1:8080 --rate 2 --seconds 60 "
        "--prompt-tokens lognormal:256,0.8 --output-tokens uniform:16-128",
        "two requests a second at random moments, of many lengths"}}));
  const CLI::App* kernels = add_bench_kernels_command(*command, action);
  command->callback([=, &action] {
    if (!command->got_subcommand(kernels)) action = [options] { return run(*options); };
  });
}

}  // namespace penstock
