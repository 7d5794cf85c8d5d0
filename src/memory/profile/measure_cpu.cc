#include "memory/profile/measure_cpu.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "cpu/pool.h"
#include "kernels/bench/measurement.h"
#include "kernels/machine_limits/machine_limits.h"
#include "kernels/matmul/bench_products.h"

namespace penstock {
namespace {

constexpr double kGb = 1e9;
constexpr double kTera = 1e12;
constexpr std::chrono::seconds kRest{1};

// What a layer's experts are to a token, and a chunk's tokens to them: the shapes of Qwen3-30B-A3B.
constexpr int64_t kExpertRows = 768;
constexpr int64_t kExpertCols = 2048;
constexpr size_t kExpertsOfToken = 8;
constexpr int64_t kTokensOfExpert = 32;  // of a chunk of 512
constexpr size_t kExpertsOfChunk = 16;

// As a model is run unless told otherwise: the class `fast`, interleaved, as far as the format has
// that.
BenchProducts products_of(Isa isa, Format format, std::vector<int64_t> tokens_of, bool generated) {
  BenchProducts products = {.isa = isa,
                            .precision = Precision::kFast,
                            .format = format,
                            .layout = Layout::kInterleaved,
                            .memory = BenchMemory::kHugePages,
                            .rows = kExpertRows,
                            .cols = kExpertCols,
                            .tokens_of = std::move(tokens_of),
                            .share_input = generated,
                            .generated = generated};
  if (!can_run(products)) products.layout = Layout::kRows;
  if (!can_run(products)) products.precision = Precision::kExact;
  return products;
}

// The common ones first.
std::vector<Format> formats_of(const CpuEffort& effort) {
  std::vector<Format> formats = native_formats();
  for (int i = 0; effort.all_formats && i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
  }
  return formats;
}

std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

class Measurer {
 public:
  Measurer(const CpuEffort& effort, Isa isa, const ProgressFn& progress)
      : effort_(effort),
        progress_(progress),
        topology_(usable_topology()),  // before a pool pins this thread
        arena_(effort.ring_bytes) {
    measured_.isa = isa;
  }

  Result<CpuMeasurement> measure_all() {
    PENSTOCK_ASSIGN(const auto pool, pool_of(/*n_threads=*/0));
    measured_.n_threads = pool->n_workers();
    PENSTOCK_TRY(measure_reads(*pool));
    measure_experts(*pool);
    measure_attention(*pool);
    const BenchProducts chunk =
        products_of(measured_.isa, Format::kQ4_0,
                    std::vector<int64_t>(kExpertsOfChunk, kTokensOfExpert), /*generated=*/false);
    measured_.prefill_tflop_s = measured(chunk, *pool).operations_a_second() / kTera;
    return std::move(measured_);
  }

 private:
  Result<std::unique_ptr<Pool>> pool_of(int n_threads) const {
    return Pool::make({.n_threads = n_threads, .pin_caller = true, .topology = topology_});
  }

  Result<void> measure_reads(Pool& pool) {
    const std::vector<int> counts = thread_counts(measured_.n_threads);
    const auto step = [&](size_t done) {
      progress_({.stage = "reading memory", .done = done, .total = counts.size() + 1});
    };
    step(0);
    // Memory that was never written is one page of zeros, in a cache.
    const std::span<std::byte> ring = arena_.take(BenchMemory::kHugePages, arena_.ring_bytes());
    pool.parallel_for(static_cast<int64_t>(ring.size()), kMiB, [&](Range range, int) {
      std::ranges::fill(
          ring.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size())),
          std::byte{1});
    });
    for (size_t i = 0; i < counts.size(); ++i) {
      step(i);
      PENSTOCK_ASSIGN(const auto some, pool_of(counts[i]));
      measured_.read_gb_s[counts[i]] =
          read_rate(*some, measured_.isa, ring, effort_.n_samples) / kGb;
    }
    step(counts.size());
    std::this_thread::sleep_for(kRest);
    const std::array<std::span<const std::byte>, 1> whole = {ring};
    measured_.rested_read_gb_s =
        static_cast<double>(ring.size()) / read_seconds(pool, measured_.isa, whole) / kGb;
    step(counts.size() + 1);
    return {};
  }

  void measure_experts(Pool& pool) {
    const std::vector<Format> formats = formats_of(effort_);
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(effort_.experts_seconds);
    for (size_t i = 0; i < formats.size() && Clock::now() < end; ++i) {
      progress_({.stage = "multiplying experts", .done = i, .total = formats.size()});
      const BenchProducts products =
          products_of(measured_.isa, formats[i], std::vector<int64_t>(kExpertsOfToken, 1), true);
      measured_.expert_gb_s[std::string(info(formats[i]).name)] =
          measured(products, pool).bytes_a_second() / kGb;
    }
  }

  // One token's, in the class `fast`, over the fewest positions that there is a benchmark of.
  void measure_attention(Pool& pool) {
    std::vector<KernelBench> benches;
    add_attention_benches(measured_.isa, benches);
    const auto decode = std::ranges::find_if(benches, [](const KernelBench& bench) {
      return bench.format == "bf16" && bench.memory == BenchMemory::kHugePages;
    });
    PENSTOCK_CHECK(decode != benches.end(), "a benchmark of decode's attention");
    measured_.attention_gb_s = measured(*decode, pool).bytes_a_second() / kGb;
  }

  KernelMeasurement measured(const BenchProducts& products, Pool& pool) {
    return measured(products_bench("experts", /*n_tokens=*/1, products), pool);
  }
  KernelMeasurement measured(const KernelBench& bench, Pool& pool) {
    return measure(bench, pool, arena_,
                   {.n_samples = effort_.n_samples, .sample_seconds = effort_.sample_seconds});
  }

  const CpuEffort& effort_;
  const ProgressFn& progress_;
  Topology topology_;
  BenchArena arena_;
  CpuMeasurement measured_;
};

}  // namespace

Result<CpuEffort> cpu_effort(bool is_quick, uint64_t available_bytes, uint64_t cache_bytes) {
  constexpr uint64_t kFullRing = 1280 * kMiB;
  constexpr uint64_t kQuickRing = 512 * kMiB;
  constexpr uint64_t kLeastRing = 128 * kMiB;
  constexpr uint64_t kShareOfAvailable = 4;
  const uint64_t ring =
      std::min(is_quick ? kQuickRing : kFullRing, available_bytes / kShareOfAvailable);
  const uint64_t least = std::max(kLeastRing, cache_bytes + cache_bytes / 2);
  if (ring < least) {
    return fail(ErrorKind::kExhausted,
                "memory and kernels are not measured: that takes {}, a quarter of the available "
                "memory at most, and {} are available",
                format_bytes(least), format_bytes(available_bytes));
  }
  CpuEffort effort = {.ring_bytes = ring, .all_formats = !is_quick};
  if (is_quick) {
    effort.n_samples = 3;
    effort.sample_seconds = 0.01;
  }
  return effort;
}

Result<CpuMeasurement> measure_cpu(const CpuEffort& effort, const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const Isa isa, choose_isa());
  return Measurer(effort, isa, progress).measure_all();
}

}  // namespace penstock
