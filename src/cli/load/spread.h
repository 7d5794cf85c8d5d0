// The spread of measured values: mean, percentiles and the greatest.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace penstock {

// The value below which the part `q` of `sorted` lies, interpolated linearly between its
// neighbours: place q * (n - 1), counted from 0 (Hyndman and Fan's type 7, numpy's default). At
// least one value, q in [0, 1].
double percentile(std::span<const double> sorted, double q);

struct Spread {
  size_t n = 0;  // 0: nothing was measured, and the rest means nothing
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

Spread spread_of(std::vector<double> values);

}  // namespace penstock
