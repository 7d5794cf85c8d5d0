// The gated activation of tokens of 6,144 numbers: eight experts of 768.
#include <vector>

#include "base/check.h"
#include "cpu/share_rows.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/random_floats.h"
#include "kernels/swiglu/swiglu.h"

namespace penstock {
namespace {

constexpr int64_t kDim = 6144;

struct SwigluRun {
  SwigluRun(Isa isa_, int64_t n_tokens_)
      : isa(isa_),
        n_tokens(n_tokens_),
        gate(random_floats(n_tokens * kDim, 1)),
        up(random_floats(n_tokens * kDim, 2)),
        y(gate.size()) {}

  void run(Pool& pool) {
    share_rows(pool, n_tokens, kDim * kConversion, [&](Range range) {
      const auto part = [&](float* all) {
        return dense_rows(all + range.begin * kDim, range.size(), kDim);
      };
      swiglu_exact(isa, part(gate.data()), part(up.data()), part(y.data()));
    });
  }
  void check(Pool& pool) {
    run(pool);
    std::vector<float> expected(y.size());
    swiglu_exact_ref(dense_rows<const float>(gate.data(), n_tokens, kDim),
                     dense_rows<const float>(up.data(), n_tokens, kDim),
                     dense_rows(expected.data(), n_tokens, kDim));
    PENSTOCK_CHECK(y == expected, "a wrong answer is not timed");
  }

  Isa isa;
  int64_t n_tokens;
  std::vector<float> gate, up, y;
};

}  // namespace

void add_swiglu_benches(Isa isa, std::vector<KernelBench>& to) {
  for (const int64_t n_tokens : {1, 512}) {
    const auto n = static_cast<double>(n_tokens * kDim);
    to.push_back({.operation = "swiglu",
                  .isa = isa,
                  .n_tokens = n_tokens,
                  .work = {.bytes = 3 * n * sizeof(float)},
                  .prepare = [isa, n_tokens](BenchArena&, Pool& pool) -> BenchRun {
                    return checked_run<SwigluRun>(pool, isa, n_tokens);
                  }});
  }
}

}  // namespace penstock
