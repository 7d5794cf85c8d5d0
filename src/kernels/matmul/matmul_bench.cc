// The product of one matrix, in every format.
//   decode from a cache: 576 x 1536, as small models have them
//   decode from RAM: 4096 x 4096, of more than 1 GiB of them each run takes the next 8
//   prefill: 1536 x 2048
#include <algorithm>

#include "kernels/matmul/bench_products.h"

namespace penstock {
namespace {

constexpr int64_t kMatricesARun = 8;

BenchProducts decode_cached(Isa isa, Format format, int64_t n_tokens) {
  return {.isa = isa,
          .format = format,
          .rows = 576,
          .cols = 1536,
          .tokens_of = {n_tokens},
          .share_input = true,
          .generated = true};
}

BenchProducts decode_from_ram(Isa isa, Format format, BenchMemory memory) {
  return {.isa = isa,
          .format = format,
          .memory = memory,
          .rows = 4096,
          .cols = 4096,
          .tokens_of = std::vector<int64_t>(kMatricesARun, 1),
          .share_input = true,
          .generated = true};
}

BenchProducts prefill(Isa isa, Format format, int64_t n_tokens) {
  return {.isa = isa,
          .format = format,
          .rows = 1536,
          .cols = 2048,
          .tokens_of = {n_tokens},
          .share_input = true};
}

}  // namespace

void add_matmul_benches(Isa isa, std::vector<KernelBench>& to) {
  const std::vector<Format> native = native_formats();
  for (const ProductKind& kind : product_kinds()) {
    for (int i = 0; i < kFormatCount; ++i) {
      const auto format = static_cast<Format>(i);
      const auto add = [&](BenchProducts products, int64_t n_tokens) {
        products.precision = kind.precision;
        products.layout = kind.layout;
        if (can_run(products)) to.push_back(products_bench("matmul", n_tokens, products));
      };
      add(decode_cached(isa, format, 1), 1);
      add(decode_cached(isa, format, 8), 8);
      add(prefill(isa, format, 512), 512);
      add(decode_from_ram(isa, format, BenchMemory::kHugePages), 1);
      // Mapped files are in these, and by rows.
      if (kind.layout == Layout::kRows && std::ranges::find(native, format) != native.end()) {
        add(decode_from_ram(isa, format, BenchMemory::kSmallPages), 1);
      }
    }
  }
}

}  // namespace penstock
