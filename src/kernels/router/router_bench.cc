// The choice of 8 experts among 128 for each token. It has one version.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "cpu/share_rows.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/random_floats.h"
#include "kernels/router/router.h"

namespace penstock {
namespace {

constexpr size_t kExperts = 128;
constexpr size_t kTopK = 8;

struct RouteRun {
  explicit RouteRun(int64_t n_tokens_)
      : n_tokens(n_tokens_),
        logits(random_floats(n_tokens * static_cast<int64_t>(kExperts), 1)),
        chosen(static_cast<size_t>(n_tokens) * kTopK) {}

  std::span<const float> logits_of(int64_t t) const {
    return std::span(logits).subspan(static_cast<size_t>(t) * kExperts, kExperts);
  }
  std::span<ExpertChoice> choices_of(int64_t t) {
    return std::span(chosen).subspan(static_cast<size_t>(t) * kTopK, kTopK);
  }

  void run(Pool& pool) {
    share_rows(pool, n_tokens, static_cast<int64_t>(kExperts) * kSelection, [&](Range range) {
      for (int64_t t = range.begin; t < range.end; ++t) {
        route({}, logits_of(t), /*bias=*/{}, choices_of(t));
      }
    });
  }

  // The largest logits win, with weights whose ratios are those of their exponentials.
  void check(Pool& pool) {
    run(pool);
    for (int64_t t = 0; t < n_tokens; ++t) {
      const auto from = logits_of(t);
      std::vector<float> sorted(from.begin(), from.end());
      std::ranges::sort(sorted, std::greater());
      double sum = 0;
      for (size_t i = 0; i < kTopK; ++i) sum += std::exp(static_cast<double>(sorted[i]));
      for (size_t i = 0; i < kTopK; ++i) {
        const ExpertChoice& choice = choices_of(t)[i];
        const double weight = std::exp(static_cast<double>(sorted[i])) / sum;
        PENSTOCK_CHECK(from[static_cast<size_t>(choice.expert)] == sorted[i] &&
                           std::abs(choice.weight - weight) < 1e-5 * weight,
                       "a wrong answer is not timed");
      }
    }
  }

  int64_t n_tokens;
  std::vector<float> logits;
  std::vector<ExpertChoice> chosen;
};

}  // namespace

void add_router_benches(Isa isa, std::vector<KernelBench>& to) {
  for (const int64_t n_tokens : {1, 512}) {
    const double bytes = kExperts * sizeof(float) + kTopK * sizeof(ExpertChoice);
    to.push_back({.operation = "router",
                  .isa = isa,
                  .n_tokens = n_tokens,
                  .work = {.bytes = static_cast<double>(n_tokens) * bytes},
                  .prepare = [n_tokens](BenchArena&, Pool& pool) -> BenchRun {
                    return checked_run<RouteRun>(pool, n_tokens);
                  }});
  }
}

}  // namespace penstock
