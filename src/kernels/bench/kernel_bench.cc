#include "kernels/bench/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace penstock {

std::string_view to_string(BenchMemory memory) {
  switch (memory) {
    case BenchMemory::kCache:
      return "cache";
    case BenchMemory::kHugePages:
      return "huge";
    case BenchMemory::kSmallPages:
      return "4 KiB";
  }
  return "?";
}

std::span<std::byte> BenchArena::take(BenchMemory memory, size_t bytes) {
  const bool small = memory == BenchMemory::kSmallPages;
  AnonymousMemory& from = small ? small_ : normal_;
  if (from.bytes().size() < bytes) {
    from = AnonymousMemory();
    auto more = AnonymousMemory::reserve(bytes, small ? OsPages::kSmall : OsPages::kHuge);
    PENSTOCK_CHECK(more, "address space for a benchmark");
    from = *std::move(more);
  }
  return from.bytes().first(bytes);
}

std::string KernelBench::name() const {
  std::string name = fmt::format("{}/{}/{}/{}/{}", operation, format.empty() ? "f32" : format,
                                 to_string(memory), to_string(isa), n_tokens);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::vector<KernelBench> kernel_benches(Isa isa) {
  std::vector<KernelBench> benches;
  add_matmul_benches(isa, benches);
  add_experts_benches(isa, benches);
  add_attention_benches(isa, benches);
  add_rms_norm_benches(isa, benches);
  add_swiglu_benches(isa, benches);
  add_rope_benches(isa, benches);
  add_router_benches(isa, benches);
  add_logits_benches(isa, benches);
  return benches;
}

}  // namespace penstock
