// `penstock bench MODEL`: tokens a second, prefill and decode apart, and where their time goes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "cli/bench/model_timer.h"
#include "cli/model_options.h"

namespace penstock {

struct ModelBenchOptions {
  ModelOptions model = {};
  ModelTimer::Runs runs = {.chunk = 512, .n_prefill = 512, .n_context = 1, .n_decode = 128};
  int repetitions = 5;
  std::filesystem::path text = {};            // whose tokens are run; empty: made-up ones
  std::filesystem::path record_routing = {};  // written there; empty: nowhere
  bool breakdown = false;
  bool json = false;
};

// --prefill, --decode, --batch, --context, --repetitions, --chunk, --text, --record-routing,
// --breakdown, and those of the model.
void add_model_bench_options(CLI::App& command, ModelBenchOptions& options);

// Prints the report to standard output.
Result<void> measure_model(ModelBenchOptions options);

}  // namespace penstock
