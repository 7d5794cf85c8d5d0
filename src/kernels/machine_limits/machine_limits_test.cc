#include "kernels/machine_limits/machine_limits.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/machine_limits/limit_loops.h"

namespace penstock {
namespace {

// The sum of all words says that each was read, and once.
TEST(MachineLimits, EveryByteIsRead) {
  std::vector<uint64_t> words(3 * kReadStep / sizeof(uint64_t));
  for (size_t i = 0; i < words.size(); ++i) words[i] = i * 0x9E3779B97F4A7C15;
  const uint64_t expected = std::accumulate(words.begin(), words.end(), uint64_t{0});
  for (const Isa isa : supported_isas()) {
    if (isa == Isa::kAvx2) {
      EXPECT_EQ(read_all_avx2(std::as_bytes(std::span(words))), expected);
    }
    if (isa == Isa::kAvx512) {
      EXPECT_EQ(read_all_avx512(std::as_bytes(std::span(words))), expected);
    }
  }
}

TEST(MachineLimits, EachIsaHasTheUnitsItsNamePromises) {
  const auto pool = Pool::make({.n_threads = 1, .pin = false}).value();
  for (const Isa isa : supported_isas()) {
    for (const Arithmetic arithmetic : kAllArithmetic) {
      const Isa first = arithmetic == Arithmetic::kFloat32 ? Isa::kAvx2
                        : arithmetic == Arithmetic::kInt8  ? Isa::kAvx512
                                                           : Isa::kAmx;
      const double rate = arithmetic_rate(*pool, isa, arithmetic, 1e-4, 1);
      EXPECT_EQ(rate > 0, isa >= first) << to_string(isa) << ' ' << to_string(arithmetic);
    }
  }
}

// No machine multiplies more than this a second and core: a count that is off by a power of ten
// would show.
TEST(MachineLimits, RatesAreOfThisWorld) {
  const auto pool = Pool::make({.n_threads = 1, .pin = false}).value();
  const std::vector<std::byte> bytes(size_t{1} << 20);
  for (const Isa isa : supported_isas()) {
    EXPECT_LT(read_rate(*pool, isa, bytes, 2), 2e12);
    EXPECT_GT(read_rate(*pool, isa, bytes, 2), 1e6);
    EXPECT_LT(arithmetic_rate(*pool, isa, Arithmetic::kFloat32, 1e-3, 2), 1e12);
  }
}

}  // namespace
}  // namespace penstock
