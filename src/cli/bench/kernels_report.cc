#include "cli/bench/kernels_report.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cli/bench/machine_json.h"
#include "cli/table.h"

namespace penstock {
namespace {

constexpr auto kRight = Table::Align::kRight;

// Three figures are what a busy machine can promise.
std::string figures(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  return value >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string giga(double rate) { return rate > 0 ? figures(rate * 1e-9) : "-"; }

std::string time_text(double seconds) {
  if (seconds >= 1) return figures(seconds) + " s";
  return seconds >= 1e-3 ? figures(seconds * 1e3) + " ms" : figures(seconds * 1e6) + " us";
}

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f}%", 100 * *share) : "-";
}

std::string limits_table(const std::vector<KernelsRun>& runs, int columns) {
  Table table({{"the machine's limits"},
               {"threads", kRight},
               {"read, huge", kRight},
               {"read, 4 KiB", kRight},
               {"float32", kRight},
               {"int8", kRight},
               {"bf16 tiles", kRight},
               {"int8 tiles", kRight}});
  for (const KernelsRun& run : runs) {
    const MachineRates& machine = run.machine;
    table.add_row({std::string(to_string(run.isa)), std::to_string(run.n_threads),
                   giga(machine.read_huge), giga(machine.read_small),
                   giga(machine.of(Arithmetic::kFloat32)), giga(machine.of(Arithmetic::kInt8)),
                   giga(machine.of(Arithmetic::kBf16Tiles)),
                   giga(machine.of(Arithmetic::kInt8Tiles))});
  }
  return table.text(columns);
}

std::string rows_table(const std::vector<KernelsRun>& runs, int columns) {
  Table table({{"operation"},
               {"format"},
               {"memory"},
               {"isa"},
               {"thr", kRight},
               {"tokens", kRight},
               {"time", kRight},
               {"GB/s", kRight},
               {"GOP/s", kRight},
               {"read", kRight},
               {"peak", kRight}});
  for (const KernelsRun& run : runs) {
    for (const KernelMeasurement& row : run.rows) {
      const KernelBench& bench = row.bench;
      table.add_row({bench.operation, bench.format, std::string(to_string(bench.memory)),
                     std::string(to_string(bench.isa)), std::to_string(row.n_threads),
                     std::to_string(bench.n_tokens), time_text(row.seconds.median),
                     giga(row.bytes_a_second()), giga(row.operations_a_second()),
                     percent(row.share_of_read(run.machine)),
                     percent(row.share_of_arithmetic(run.machine))});
    }
  }
  return table.text(columns);
}

Json limits_json(const KernelsRun& run) {
  Json operations = Json::object();
  for (const Arithmetic arithmetic : kAllArithmetic) {
    const double rate = run.machine.of(arithmetic);
    operations[std::string(to_string(arithmetic))] = rate > 0 ? Json(rate) : Json(nullptr);
  }
  return {{"isa", to_string(run.isa)},
          {"threads", run.n_threads},
          {"read_bytes_s", {{"huge", run.machine.read_huge}, {"4 KiB", run.machine.read_small}}},
          {"operations_s", operations}};
}

Json row_json(const KernelMeasurement& row, const MachineRates& machine) {
  const auto or_null = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  const KernelBench& bench = row.bench;
  const bool counted = bench.work.operations > 0;
  return {{"operation", bench.operation},
          {"format", bench.format.empty() ? Json() : Json(bench.format)},
          {"memory", to_string(bench.memory)},
          {"isa", to_string(bench.isa)},
          {"threads", row.n_threads},
          {"tokens", bench.n_tokens},
          {"seconds",
           {{"min", row.seconds.least}, {"median", row.seconds.median}, {"max", row.seconds.most}}},
          {"bytes", bench.work.bytes},
          {"bytes_s", row.bytes_a_second()},
          {"share_of_read", or_null(row.share_of_read(machine))},
          {"operations", counted ? Json(bench.work.operations) : Json()},
          {"operations_s", counted ? Json(row.operations_a_second()) : Json()},
          {"arithmetic", counted ? Json(to_string(bench.work.arithmetic)) : Json()},
          {"share_of_arithmetic", or_null(row.share_of_arithmetic(machine))}};
}

}  // namespace

std::string kernels_table(const std::vector<KernelsRun>& runs, int columns) {
  return limits_table(runs, columns) + '\n' + rows_table(runs, columns);
}

Json kernels_json(const std::vector<KernelsRun>& runs, bool quick) {
  Json limits = Json::array();
  Json rows = Json::array();
  for (const KernelsRun& run : runs) {
    limits.push_back(limits_json(run));
    for (const KernelMeasurement& row : run.rows) rows.push_back(row_json(row, run.machine));
  }
  return {{"machine", machine_json()}, {"quick", quick}, {"limits", limits}, {"rows", rows}};
}

}  // namespace penstock
