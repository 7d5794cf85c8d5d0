// `penstock bench --url`: the load's options, and the measurement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/server_options.h"
#include "cli/load/load_run.h"

namespace penstock {

struct LoadBenchOptions {
  ServerAddress server = {};
  std::string model = {};
  LoadRoute route = LoadRoute::kChat;
  std::vector<int> concurrency = {};
  std::vector<double> rates = {};  // when both are empty: one client
  std::optional<int64_t> n_requests = {};
  std::optional<double> seconds = {};
  std::string prompt_tokens = "128";
  std::optional<std::string> output_tokens = {};  // 64; with a dataset what its answers have
  std::filesystem::path dataset = {};
  double shared_prefix = 0;
  uint64_t seed = 1;
  bool ignore_eos = false;
  bool json = false;
};

// --url and what goes with it, in groups "Server" and "Load". Returns --url.
CLI::Option* add_load_options(CLI::App& command, LoadBenchOptions& options);

// Prints the report to standard output. An error also when any request failed.
Result<void> measure_server(const LoadBenchOptions& options);

}  // namespace penstock
