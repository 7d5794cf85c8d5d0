#include "cli/load/spread.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace penstock {

double percentile(std::span<const double> sorted, double q) {
  PENSTOCK_CHECK(!sorted.empty() && q >= 0 && q <= 1, "no such percentile");
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.n = values.size(),
          .mean = sum / static_cast<double>(values.size()),
          .p50 = percentile(values, 0.5),
          .p90 = percentile(values, 0.9),
          .p99 = percentile(values, 0.99),
          .max = values.back()};
}

}  // namespace penstock
