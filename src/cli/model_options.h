// The options of every command that runs a model, and the model they open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "engine/answer/answer_format.h"
#include "model/load.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock {

struct ModelOptions {
  std::filesystem::path path = {};
  int n_threads = 0;      // 0: one for each core
  int64_t kv_tokens = 0;  // 0: as planned
  LoadMode mode = LoadMode::kAuto;
  ExpertSlots expert_slots = {};
  std::optional<uint64_t> ram_reserve_bytes = {};
  bool repack = true;
  Precision precision = Precision::kFast;
  bool verify = false;       // a pack's checksums, before anything else
  std::string gpu = "auto";  // none, or which, as choose_device takes it
  std::optional<uint64_t> vram_budget_bytes = {};
  AnswerFormatChoice answers = {};
  std::filesystem::path kv_spill = {};  // empty: KV pages stay in RAM
  uint64_t kv_spill_bytes = 8 * kGiB;
};

// MODEL alone, for commands that only read headers.
void add_model_argument(CLI::App& command, ModelOptions& options);
// MODEL, --threads, --load, --expert-slots, --ram-reserve, --verify, --cpu-precision, --gpu,
// --vram-budget; what `options` holds is what they default to.
void add_model_options(CLI::App& command, ModelOptions& options);
// --kv-tokens, for commands whose requests decide at run time how long they get.
void add_kv_option(CLI::App& command, ModelOptions& options);
// --kv-spill, --kv-spill-gib, for commands whose prompts come again after a restart.
void add_kv_spill_options(CLI::App& command, ModelOptions& options);
// --tool-parser, --reasoning-parser.
void add_answer_options(CLI::App& command, ModelOptions& options);

// An option that names an arithmetic class, as --cpu-precision does.
CLI::Option* add_precision_option(CLI::App& command, const std::string& name,
                                  const std::string& description,
                                  std::function<void(Precision)> take);

// Verifies first, if that is asked for.
Result<LoadedModel> load(const Checkpoint& checkpoint, const ModelOptions& options,
                         const ProgressFn& progress);

// What was opened and what was chosen, a line each.
std::vector<std::string> describe(const Checkpoint& checkpoint, const LoadReport& report);

}  // namespace penstock
