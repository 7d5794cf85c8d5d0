// The rotation of 36 heads of 128 numbers, a token's queries and keys. It has one version.
#include <cmath>
#include <vector>

#include "base/check.h"
#include "cpu/share_rows.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/random_floats.h"
#include "kernels/rope/rope.h"

namespace penstock {
namespace {

constexpr int64_t kHeads = 36;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kTokenNumbers = kHeads * kHeadDim;

struct RopeRun {
  explicit RopeRun(int64_t n_tokens_)
      : n_tokens(n_tokens_), numbers(random_floats(n_tokens * kTokenNumbers, 1)) {
    for (int64_t i = 0; i < kHeadDim / 2; ++i) {
      cos.push_back(static_cast<float>(std::cos(static_cast<double>(i))));
      sin.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
    }
  }

  void run(Pool& pool) {
    share_rows(pool, n_tokens, kTokenNumbers * kRotation, [&](Range range) {
      for (int64_t t = range.begin; t < range.end; ++t) {
        rope_rotate(RopePairs::kHalves, cos, sin,
                    dense_rows(numbers.data() + t * kTokenNumbers, kHeads, kHeadDim));
      }
    });
  }

  // Against a turn in float64, two products and a sum of which are rounded to float32: below 2^-22
  // of the numbers' size.
  void check(Pool& pool) {
    const std::vector<float> before = numbers;
    run(pool);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t half = kHeadDim / 2, at = i % kHeadDim, pair = at % half;
      const double c = cos[pair], s = sin[pair];
      const double first = before[i - at + pair], second = before[i - at + pair + half];
      const double right = at < half ? first * c - second * s : second * c + first * s;
      PENSTOCK_CHECK(std::abs(numbers[i] - right) <= 0x1p-22 * std::hypot(first, second),
                     "a wrong answer is not timed");
    }
  }

  int64_t n_tokens;
  std::vector<float> cos, sin, numbers;
};

}  // namespace

void add_rope_benches(Isa isa, std::vector<KernelBench>& to) {
  for (const int64_t n_tokens : {1, 512}) {
    const auto n = static_cast<double>(n_tokens * kTokenNumbers);
    to.push_back({.operation = "rope",
                  .isa = isa,
                  .n_tokens = n_tokens,
                  // two products and an addition a number
                  .work = {.bytes = 2 * n * sizeof(float), .operations = 3 * n},
                  .prepare = [n_tokens](BenchArena&, Pool& pool) -> BenchRun {
                    return checked_run<RopeRun>(pool, n_tokens);
                  }});
  }
}

}  // namespace penstock
