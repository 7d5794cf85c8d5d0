// RMS norm of tokens of 2,048 numbers.
#include <vector>

#include "base/check.h"
#include "cpu/share_rows.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/random_floats.h"
#include "kernels/rms_norm/rms_norm.h"

namespace penstock {
namespace {

constexpr int64_t kDim = 2048;
constexpr float kEps = 1e-6F;

struct NormRun {
  NormRun(Isa isa_, int64_t n_tokens_)
      : isa(isa_),
        n_tokens(n_tokens_),
        x(random_floats(n_tokens * kDim, 1)),
        w(random_floats(kDim, 2)),
        y(x.size()) {}

  void run(Pool& pool) {
    share_rows(pool, n_tokens, kDim * kPlainPass, [&](Range range) {
      const auto part = [&](float* all) {
        return dense_rows(all + range.begin * kDim, range.size(), kDim);
      };
      rms_norm_exact(isa, part(x.data()), w, kEps, part(y.data()));
    });
  }
  void check(Pool& pool) {
    run(pool);
    std::vector<float> expected(y.size());
    rms_norm_exact_ref(dense_rows<const float>(x.data(), n_tokens, kDim), w, kEps,
                       dense_rows(expected.data(), n_tokens, kDim));
    PENSTOCK_CHECK(y == expected, "a wrong answer is not timed");
  }

  Isa isa;
  int64_t n_tokens;
  std::vector<float> x, w, y;
};

}  // namespace

void add_rms_norm_benches(Isa isa, std::vector<KernelBench>& to) {
  for (const int64_t n_tokens : {1, 512}) {
    const auto n = static_cast<double>(n_tokens * kDim);
    to.push_back({.operation = "rms norm",
                  .isa = isa,
                  .n_tokens = n_tokens,
                  // a square, its addition and two products a number
                  .work = {.bytes = (2 * n + kDim) * sizeof(float), .operations = 4 * n},
                  .prepare = [isa, n_tokens](BenchArena&, Pool& pool) -> BenchRun {
                    return checked_run<NormRun>(pool, isa, n_tokens);
                  }});
  }
}

}  // namespace penstock
