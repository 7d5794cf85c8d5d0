#include "cli/load/load_report.h"

#include <utility>

#include "cli/table.h"

namespace penstock {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

std::string load_of(const LoadShape& shape) {
  return shape.concurrency > 0 ? fmt::format("{} at once", shape.concurrency)
                               : fmt::format("{:g} a second", shape.rate);
}

OrderedJson spread_json(const Spread& spread) {
  if (spread.n == 0) return nullptr;
  return {{"mean", spread.mean},
          {"p50", spread.p50},
          {"p90", spread.p90},
          {"p99", spread.p99},
          {"max", spread.max}};
}

std::string rates_table(const std::vector<LoadRow>& rows, int columns) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"load"},
               {"answered", kRight},
               {"failed", kRight},
               {"seconds", kRight},
               {"requests/s", kRight},
               {"input tok/s", kRight},
               {"output tok/s", kRight}});
  for (const LoadRow& row : rows) {
    const bool input_is_known = row.n_without_usage == 0;
    table.add_row({load_of(row.shape), std::to_string(row.n_answered),
                   std::to_string(row.n_failed()), fmt::format("{:.1f}", row.seconds),
                   fmt::format("{:.3f}", row.per_second(row.n_answered)),
                   input_is_known ? fmt::format("{:.1f}", row.per_second(row.input_tokens)) : "?",
                   fmt::format("{:.1f}", row.per_second(row.output_tokens))});
  }
  return table.text(columns);
}

std::string times_table(const std::vector<LoadRow>& rows, int columns) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"load"},
               {"milliseconds"},
               {"mean", kRight},
               {"p50", kRight},
               {"p90", kRight},
               {"p99", kRight},
               {"max", kRight}});
  for (const LoadRow& row : rows) {
    for (const auto& [name, spread] : {std::pair{"to the first token", row.first_ms},
                                       {"between tokens", row.gap_ms},
                                       {"to the end", row.whole_ms}}) {
      std::vector<std::string> cells = {load_of(row.shape), name};
      for (const double value : {spread.mean, spread.p50, spread.p90, spread.p99, spread.max}) {
        cells.push_back(spread.n > 0 ? fmt::format("{:.1f}", value) : "-");
      }
      table.add_row(std::move(cells));
    }
  }
  return table.text(columns);
}

}  // namespace

int64_t LoadRow::n_failed() const {
  int64_t sum = 0;
  for (const auto& [label, n] : failures) sum += n;
  return sum;
}

LoadRow summarize(const LoadShape& shape, const LoadResult& result) {
  LoadRow row = {.shape = shape, .seconds = result.seconds};
  std::vector<double> first;
  std::vector<double> gaps;
  std::vector<double> whole;
  for (const RequestRecord& record : result.records) {
    if (!record.failure.empty()) {
      ++row.failures[record.failure];
      row.messages.emplace(record.failure, record.message);
      continue;
    }
    ++row.n_answered;
    row.input_tokens += record.input_tokens;
    row.output_tokens += record.output_tokens;
    row.n_without_usage += record.has_usage ? 0 : 1;
    first.push_back((record.first - record.began) * kMillisecondsPerSecond);
    whole.push_back((record.ended - record.began) * kMillisecondsPerSecond);
    for (const double gap : record.gaps) gaps.push_back(gap * kMillisecondsPerSecond);
  }
  row.first_ms = spread_of(std::move(first));
  row.gap_ms = spread_of(std::move(gaps));
  row.whole_ms = spread_of(std::move(whole));
  return row;
}

OrderedJson to_json(const LoadRow& row) {
  OrderedJson json;
  if (row.shape.concurrency > 0) {
    json["concurrency"] = row.shape.concurrency;
  } else {
    json["rate"] = row.shape.rate;
  }
  const bool input_is_known = row.n_without_usage == 0;
  json["requests"] = row.n_answered + row.n_failed();
  json["failed"] = row.n_failed();
  json["errors"] = OrderedJson::object();
  for (const auto& [label, n] : row.failures) {
    json["errors"][label] = {{"count", n}, {"first", row.messages.at(label)}};
  }
  json["seconds"] = row.seconds;
  json["input_tokens"] = input_is_known ? OrderedJson(row.input_tokens) : OrderedJson();
  json["output_tokens"] = row.output_tokens;
  json["tokens_counted_by"] = input_is_known ? "usage" : "chunks";
  json["requests_s"] = row.per_second(row.n_answered);
  json["input_tok_s"] =
      input_is_known ? OrderedJson(row.per_second(row.input_tokens)) : OrderedJson();
  json["output_tok_s"] = row.per_second(row.output_tokens);
  json["first_token_ms"] = spread_json(row.first_ms);
  json["inter_token_ms"] = spread_json(row.gap_ms);
  json["end_to_end_ms"] = spread_json(row.whole_ms);
  return json;
}

std::string to_table(const std::vector<LoadRow>& rows, int columns) {
  return rates_table(rows, columns) + '\n' + times_table(rows, columns);
}

std::vector<std::string> remarks(const std::vector<LoadRow>& rows) {
  std::vector<std::string> lines;
  for (const LoadRow& row : rows) {
    if (row.n_without_usage > 0) {
      lines.push_back(
          fmt::format("{}: {} answers came without usage: their chunks are counted as tokens, and "
                      "their prompts "
                      "not at all",
                      load_of(row.shape), row.n_without_usage));
    }
    for (const auto& [label, n] : row.failures) {
      lines.push_back(fmt::format("{}: {} x {}, the first: {}", load_of(row.shape), n, label,
                                  row.messages.at(label)));
    }
  }
  return lines;
}

}  // namespace penstock
