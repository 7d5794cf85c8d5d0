// How long prompts and answers are: fixed, or drawn for each request.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "cli/load/randomness.h"

namespace penstock {

struct Lengths {
  enum class Kind { kFixed, kUniform, kLognormal };

  Kind kind = Kind::kFixed;
  int64_t low = 1;   // kFixed: the length; kUniform: the least; kLognormal: the median
  int64_t high = 1;  // kUniform: the greatest, included
  double sigma = 0;  // kLognormal: standard deviation of the logarithm

  int64_t draw(Random& random) const;  // [1, kLongest]

  static constexpr int64_t kLongest = int64_t{1} << 20;
};

// "128", "uniform:64-256", "lognormal:128,0.6" (median, sigma). `option` is named in errors, which
// are kInvalidArgument.
Result<Lengths> parse_lengths(std::string_view text, std::string_view option);

}  // namespace penstock
