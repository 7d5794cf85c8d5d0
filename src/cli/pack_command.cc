// penstock pack: writes Penstock's own layout of a model, on the way requantised or upcycled.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/units.h"
#include "checkpoint/pack.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "os/signals.h"

namespace penstock {
namespace {

struct PackCommandOptions {
  std::filesystem::path source = {};
  std::filesystem::path output = {};
  bool force = false;
  bool verify = false;
  std::optional<Format> experts_format = {};
  std::optional<int> upcycle = {};
  std::optional<int> top_k = {};
  std::optional<uint64_t> seed = {};
};

Result<PackOptions> pack_options(const PackCommandOptions& options) {
  PackOptions pack = {.output = options.output,
                      .if_exists = options.force ? IfExists::kReplace : IfExists::kRefuse,
                      .experts_format = options.experts_format};
  if (options.upcycle) {
    pack.upcycle.emplace();
    pack.upcycle->n_experts = *options.upcycle;
    pack.upcycle->top_k = options.top_k.value_or(pack.upcycle->top_k);
    pack.upcycle->seed = options.seed.value_or(pack.upcycle->seed);
  }
  return pack;
}

Result<void> run(const PackCommandOptions& options) {
  PENSTOCK_ASSIGN(const PackOptions pack, pack_options(options));
  PENSTOCK_ASSIGN(const Checkpoint source, open_checkpoint(options.source));
  for (const std::string& note : source.notes) fmt::print(stderr, "{}\n", note);

  // Ctrl-C and SIGTERM stop the work where it can clean up behind itself.
  SignalCatcher signals({SIGINT, SIGTERM});
  std::stop_source stop;
  ProgressDisplay display;
  const ProgressFn show = display.function();
  const ProgressFn progress = [&](const ProgressUpdate& update) {
    if (signals.take()) stop.request_stop();
    show(update);
  };
  PENSTOCK_ASSIGN(const PackSummary summary, write_pack(source, pack, progress, stop.get_token()));
  if (options.verify) {
    PENSTOCK_ASSIGN(const Checkpoint written, open_pack(summary.folder));
    PENSTOCK_TRY(verify_pack(written, progress, stop.get_token()));
  }
  display.finish();
  for (const auto& path : summary.removed) {
    fmt::print(stderr, "removed {}, which a killed writer had left\n", path.string());
  }
  fmt::print("{}: {} in {} tensors, {} experts{}\n", summary.folder.string(),
             format_bytes(summary.bytes), summary.n_tensors, summary.n_experts,
             options.verify ? ", verified" : "");
  return {};
}

}  // namespace

void add_pack_command(CLI::App& app, Action& action) {
  static const std::map<std::string, Format> kFormats = {{"nvfp4", Format::kNvfp4},
                                                         {"mxfp4", Format::kMxfp4},
                                                         {"q8_0", Format::kQ8_0},
                                                         {"q4_0", Format::kQ4_0},
                                                         {"bf16", Format::kBF16}};
  auto options = std::make_shared<PackCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "pack", "Writes a model as a pack: fast to load, checksummed, each expert in one piece.");
  command->add_option("MODEL", options->source, "a Hugging Face folder, a GGUF file or a pack")
      ->required();
  command->add_option("-o,--output", options->output, "the folder to write")
      ->type_name("DIR")
      ->required();
  command->add_flag("--force", options->force, "replace the pack that is there");
  command->add_flag("--verify", options->verify, "read the pack again and compare its checksums");
  command
      ->add_option("--experts-format", options->experts_format,
                   "requantise the routed experts: nvfp4, mxfp4, q8_0, q4_0 or bf16; as they are "
                   "stored unless given")
      ->type_name("FORMAT")
      ->transform(CLI::CheckedTransformer(kFormats).description(""));
  CLI::Option* upcycle =
      command
          ->add_option(
              "--upcycle", options->upcycle,
              "turn a dense Llama-like model into a mixture of N experts that computes the "
              "same function: each expert is the MLP in another order")
          ->type_name("N")
          ->check(CLI::Range(2, 4096));
  command->add_option("--top-k", options->top_k, "with --upcycle: experts at work on a token [2]")
      ->type_name("K")
      ->check(CLI::Range(1, 4096))
      ->needs(upcycle);
  command
      ->add_option("--seed", options->seed,
                   "with --upcycle: of the router's noise and the orders [0]")
      ->type_name("N")
      ->needs(upcycle);
  command->footer(
      examples({{"penstock pack Mixtral-8x7B/ -o mixtral.pack", "as it is stored"},
                {"penstock pack Qwen3-30B-A3B/ -o qwen3.pack --experts-format nvfp4 --verify",
                 "its experts in 4 bits"},
                {"penstock pack SmolLM2-135M.gguf -o smol-moe.pack --upcycle 8 --top-k 2",
                 "a mixture made of a dense model"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
