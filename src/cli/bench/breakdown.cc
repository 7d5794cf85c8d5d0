#include "cli/bench/breakdown.h"

#include <fmt/format.h>

#include "base/check.h"
#include "cli/table.h"

namespace penstock {
namespace {

BreakdownLine line(std::string_view operation, const OperationTotals& totals,
                   const OperationTotals& steps) {
  const auto n = static_cast<double>(steps.n_calls);
  return {.operation = operation,
          .seconds = totals.seconds / n,
          .share = totals.seconds / steps.seconds,
          .waiting_seconds = totals.waiting_seconds / n,
          .work = {totals.work.bytes / n, totals.work.operations / n}};
}

// "-" for what is not counted.
std::string scaled(double value, double by) {
  return value > 0 ? fmt::format("{:.2f}", value * by) : "-";
}

void add_row(Table& table, const BreakdownLine& line) {
  table.add_row({std::string(line.operation), fmt::format("{:.3f}", line.seconds * 1e3),
                 fmt::format("{:.1f}%", 100 * line.share),
                 fmt::format("{:.3f}", line.waiting_seconds * 1e3), scaled(line.work.bytes, 1e-6),
                 scaled(line.bytes_a_second(), 1e-9), scaled(line.operations_a_second(), 1e-9)});
}

Json line_json(const BreakdownLine& line) {
  const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(); };
  return {{"operation", line.operation},
          {"seconds", line.seconds},
          {"share", line.share},
          {"waiting_seconds", line.waiting_seconds},
          {"bytes", or_null(line.work.bytes)},
          {"bytes_s", or_null(line.bytes_a_second())},
          {"operations", or_null(line.work.operations)},
          {"operations_s", or_null(line.operations_a_second())}};
}

}  // namespace

BreakdownLine whole_step(const Profile& profile) {
  PENSTOCK_CHECK(profile.steps().n_calls > 0, "a breakdown of no steps");
  return line("whole step", profile.steps(), profile.steps());
}

std::vector<BreakdownLine> breakdown_lines(const Profile& profile) {
  PENSTOCK_CHECK(profile.steps().n_calls > 0, "a breakdown of no steps");
  std::vector<BreakdownLine> lines;
  for (size_t i = 0; i < kOperationCount; ++i) {
    const auto operation = static_cast<Operation>(i);
    const OperationTotals& totals = profile.of(operation);
    if (totals.n_calls > 0) lines.push_back(line(to_string(operation), totals, profile.steps()));
  }
  lines.push_back(line("other", profile.rest(), profile.steps()));
  return lines;
}

std::string breakdown_table(std::string_view kind, const Profile& profile, int columns) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{std::string(kind) + " step"},
               {"ms", kRight},
               {"share", kRight},
               {"waiting ms", kRight},
               {"MB", kRight},
               {"GB/s", kRight},
               {"GOP/s", kRight}});
  for (const BreakdownLine& line : breakdown_lines(profile)) add_row(table, line);
  add_row(table, whole_step(profile));
  return table.text(columns);
}

Json breakdown_json(const Profile& profile) {
  Json whole = line_json(whole_step(profile));
  whole.erase("operation");
  whole.erase("share");
  whole["steps"] = profile.steps().n_calls;
  whole["by_operation"] = Json::array();
  for (const BreakdownLine& line : breakdown_lines(profile)) {
    whole["by_operation"].push_back(line_json(line));
  }
  return whole;
}

}  // namespace penstock
