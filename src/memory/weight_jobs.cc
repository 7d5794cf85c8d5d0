#include "memory/weight_jobs.h"

#include "base/units.h"

namespace penstock {

void run_weight_jobs(Pool* pool, const ProgressFn& progress, std::string_view stage,
                     std::span<const uint64_t> sizes, FunctionRef<void(size_t i)> body) {
  constexpr uint64_t kBatchBytes = 256 * kMiB;  // often enough for progress
  ProgressUpdate update = {.stage = stage};
  for (const uint64_t bytes : sizes) update.total += bytes;
  for (size_t begin = 0; begin < sizes.size();) {
    size_t end = begin;
    for (uint64_t batch = 0; end < sizes.size() && batch < kBatchBytes; ++end) batch += sizes[end];
    const auto run = [&](Range range, int) {
      for (int64_t i = range.begin; i < range.end; ++i) body(begin + static_cast<size_t>(i));
    };
    const auto n_jobs = static_cast<int64_t>(end - begin);
    if (pool == nullptr) {
      run({0, n_jobs}, 0);
    } else {
      pool->parallel_for(n_jobs, 1, run);
    }
    for (; begin < end; ++begin) update.done += sizes[begin];
    if (progress) progress(update);
  }
}

}  // namespace penstock
