// What a run of a load amounts to, as a table and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/load/load_run.h"
#include "cli/load/spread.h"

namespace penstock {

struct LoadRow {
  LoadShape shape = {};
  double seconds = 0;
  int64_t n_answered = 0;
  std::map<std::string, int64_t> failures = {};      // by label
  std::map<std::string, std::string> messages = {};  // the first of each label
  int64_t input_tokens = 0;                          // of answered requests
  int64_t output_tokens = 0;
  int64_t n_without_usage = 0;  // of those: their chunks were counted
  Spread first_ms = {};         // of answered requests
  Spread gap_ms = {};
  Spread whole_ms = {};

  int64_t n_failed() const;
  double per_second(int64_t n) const { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }
};

LoadRow summarize(const LoadShape& shape, const LoadResult& result);

// {"concurrency": 4, "requests": 32, "failed": 0, ...}; null where nothing was measured.
OrderedJson to_json(const LoadRow& row);

// Two tables: rates, then times; in `columns` columns.
std::string to_table(const std::vector<LoadRow>& rows, int columns);

// What the tables do not say: failures by kind, tokens that were only counted as chunks. A line
// each.
std::vector<std::string> remarks(const std::vector<LoadRow>& rows);

}  // namespace penstock
