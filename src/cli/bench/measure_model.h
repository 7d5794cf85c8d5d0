// `penstock bench MODEL`: tokens a second, prefill and decode apart, and where their time goes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "cli/model_options.h"

namespace penstock {

struct ModelBenchOptions {
  ModelOptions model = {};
  int64_t n_prefill = 512;
  int64_t n_decode = 128;
  int64_t n_context = 1;  // tokens that are there before decode begins
  int64_t chunk = 512;
  int repetitions = 5;
  std::filesystem::path text = {};            // whose tokens are run; empty: made-up ones
  std::filesystem::path record_routing = {};  // written there; empty: nowhere
  bool breakdown = false;
  bool json = false;
};

// --prefill, --decode, --context, --repetitions, --chunk, --text, --record-routing, --breakdown,
// and those of the model.
void add_model_bench_options(CLI::App& command, ModelBenchOptions& options);

// Prints the report to standard output.
Result<void> measure_model(ModelBenchOptions options);

}  // namespace penstock
