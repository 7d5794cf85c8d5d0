#include "cli/plan/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/units.h"
#include "cli/table.h"
#include "memory/expert_slots.h"

namespace penstock {
namespace {

constexpr double kShares[] = {0.10, 0.25, 0.50, 0.75, 1.0};
constexpr ReplayPolicy kShipped = ReplayPolicy::kForecast;

using Kind = ReplayCounts ReplayResult::*;
struct NamedKind {
  std::string_view name;
  Kind counts;
};
constexpr NamedKind kKinds[] = {{"decode", &ReplayResult::decode},
                                {"prefill", &ReplayResult::prefill}};

std::string steps_text(int64_t n) {
  return n == 1 ? "1 step" : fmt::format("{} steps", format_count(static_cast<uint64_t>(n)));
}

std::string count_text(int64_t count) { return format_count(static_cast<uint64_t>(count)); }

Result<int64_t> slots_of(const RoutingRecord& record, std::string_view text) {
  PENSTOCK_ASSIGN(const ExpertSlots slots, parse_expert_slots(text));
  const int64_t n_slots = slots.of(record.n_experts());
  if (n_slots <= record.n_experts()) return n_slots;
  return fail(ErrorKind::kInvalidArgument,
              "--expert-slots {} are more than the record's {} experts", n_slots,
              record.n_experts());
}

ReplayRow replay_all(const RoutingRecord& record, int64_t n_slots) {
  ReplayRow row = {.n_slots = n_slots};
  for (size_t i = 0; i < kReplayPolicies.size(); ++i) {
    row.results[i] = replay(record, n_slots, make_policy(kReplayPolicies[i], record));
  }
  return row;
}

double share_of(const RoutingRecord& record, int64_t n_slots) {
  return static_cast<double>(n_slots) / static_cast<double>(record.n_experts());
}

int64_t n_uses(const ReplayRow& row, Kind kind) { return (row.results.front().*kind).n_uses; }

std::string table_of(const RoutingRecord& record, const std::vector<ReplayRow>& rows, Kind kind,
                     int columns) {
  constexpr auto kRight = Table::Align::kRight;
  std::vector<Table::Column> titles = {{"slots", kRight}, {"of all", kRight}};
  for (const ReplayPolicy policy : kReplayPolicies) {
    titles.push_back({std::string(to_string(policy)), kRight});
  }
  Table table(std::move(titles));
  for (const ReplayRow& row : rows) {
    std::vector<std::string> cells = {
        count_text(row.n_slots), fmt::format("{:.0f} %", 100.0 * share_of(record, row.n_slots))};
    for (const ReplayResult& result : row.results) {
      cells.push_back(fmt::format("{:.1f} %", 100.0 * (result.*kind).hit_rate()));
    }
    table.add_row(std::move(cells));
  }
  return table.text(columns);
}

int64_t n_steps(const RoutingRecord& record, Kind kind) {
  return std::ranges::count(record.steps(), kind == &ReplayResult::prefill,
                            &RoutingRecord::Step::is_prefill);
}

// "resident LFU" becomes "resident_lfu".
std::string json_name(ReplayPolicy policy) {
  std::string name;
  for (const char c : to_string(policy)) {
    name += c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

OrderedJson kind_json(const ReplayRow& row, Kind kind) {
  OrderedJson rates = OrderedJson::object();
  for (size_t i = 0; i < kReplayPolicies.size(); ++i) {
    rates[json_name(kReplayPolicies[i])] = (row.results[i].*kind).hit_rate();
  }
  return {{"uses", n_uses(row, kind)}, {"hit_rate", std::move(rates)}};
}

}  // namespace

Result<std::vector<ReplayRow>> replay_rows(const RoutingRecord& record,
                                           std::string_view expert_slots) {
  std::vector<ReplayRow> rows;
  if (!expert_slots.empty()) {
    PENSTOCK_ASSIGN(const int64_t n_slots, slots_of(record, expert_slots));
    rows.push_back(replay_all(record, n_slots));
    return rows;
  }
  for (const double share : kShares) {
    const int64_t n_slots = ExpertSlots{.share = share}.of(record.n_experts());
    if (rows.empty() || rows.back().n_slots != n_slots) rows.push_back(replay_all(record, n_slots));
  }
  return rows;
}

std::string replay_text(const RoutingRecord& record, const std::vector<ReplayRow>& rows,
                        int columns) {
  const RoutingRecord::Shape& shape = record.shape();
  std::string text = fmt::format(
      "{}: {} layers, {} experts in each of which {} work; {} experts in all\n", shape.model,
      shape.n_layers, shape.n_experts, shape.top_k, count_text(record.n_experts()));
  for (const auto& [name, kind] : kKinds) {
    if (n_uses(rows.front(), kind) == 0) continue;
    text += fmt::format(
        "\n{}: {} with {} uses of experts, and how many of these found theirs in a slot\n{}", name,
        steps_text(n_steps(record, kind)), count_text(n_uses(rows.front(), kind)),
        table_of(record, rows, kind, columns));
  }
  return text +
         fmt::format(
             "\nthe expert cache does as {}; {} knows what comes, and is the most there could be\n",
             to_string(kShipped), to_string(ReplayPolicy::kBelady));
}

OrderedJson replay_json(const RoutingRecord& record, const std::vector<ReplayRow>& rows) {
  const RoutingRecord::Shape& shape = record.shape();
  OrderedJson json = {{"record",
                       {{"model", shape.model},
                        {"layers", shape.n_layers},
                        {"experts", shape.n_experts},
                        {"top_k", shape.top_k},
                        {"steps", record.steps().size()},
                        {"visits", record.visits().size()}}},
                      {"shipped", json_name(kShipped)},
                      {"rows", OrderedJson::array()}};
  for (const ReplayRow& row : rows) {
    OrderedJson line = {{"slots", row.n_slots}, {"share", share_of(record, row.n_slots)}};
    for (const auto& [name, kind] : kKinds) line[std::string(name)] = kind_json(row, kind);
    json["rows"].push_back(std::move(line));
  }
  return json;
}

}  // namespace penstock
