// The gate's product in routed experts of Qwen3-30B-A3B's shape: 128 experts of 768 x 2048, of
// which each token visits 8. Experts come from RAM, each run's from where the last one's end.
#include <random>

#include "kernels/matmul/bench_products.h"

namespace penstock {
namespace {

constexpr int kExperts = 128;
constexpr int kTopK = 8;

// How many tokens visit each expert that is visited at all, of n_tokens that choose at random.
std::vector<int64_t> visits(int64_t n_tokens) {
  std::mt19937 random(1);
  std::vector<int64_t> visits(kExperts, 0);
  for (int64_t t = 0; t < n_tokens; ++t) {
    std::vector<int> experts(kExperts);
    for (int i = 0; i < kExperts; ++i) experts[static_cast<size_t>(i)] = i;
    for (int i = 0; i < kTopK; ++i) {  // the beginning of a shuffle
      const auto other = static_cast<size_t>(i) + random() % static_cast<size_t>(kExperts - i);
      std::swap(experts[static_cast<size_t>(i)], experts[other]);
      ++visits[static_cast<size_t>(experts[static_cast<size_t>(i)])];
    }
  }
  std::erase(visits, 0);
  return visits;
}

}  // namespace

void add_experts_benches(Isa isa, std::vector<KernelBench>& to) {
  for (const ProductKind& kind : product_kinds()) {
    for (const Format format : native_formats()) {
      for (const int64_t n_tokens : {1, 8, 512}) {
        const BenchProducts products = {.isa = isa,
                                        .precision = kind.precision,
                                        .format = format,
                                        .layout = kind.layout,
                                        .memory = BenchMemory::kHugePages,
                                        .rows = 768,
                                        .cols = 2048,
                                        .tokens_of = visits(n_tokens),
                                        .generated = n_tokens < 512};
        if (can_run(products)) to.push_back(products_bench("experts", n_tokens, products));
      }
    }
  }
}

}  // namespace penstock
