#include "model/compute.h"

#include <algorithm>
#include <vector>

#include "kernels/matmul/matmul.h"

namespace penstock {
namespace {

// Rows of weights a worker takes at a time: enough chunks that no worker waits long for the last,
// each a multiple of every kernel's panel height.
constexpr int64_t kChunkMultiple = 48;
constexpr int64_t kChunksPerWorker = 4;

// Below this many token rows a parallel region costs more than it saves (about a microsecond each
// way).
constexpr int64_t kSerialRows = 4;

int64_t chunk_rows(int64_t total_rows, int n_workers) {
  if (n_workers == 1) return total_rows;
  const int64_t even = total_rows / (n_workers * kChunksPerWorker);
  return std::max<int64_t>(1, even / kChunkMultiple) * kChunkMultiple;
}

}  // namespace

void run_matmuls(const Compute& compute, std::span<const MatmulJob> jobs) {
  int64_t total_rows = 0;
  for (const MatmulJob& job : jobs) total_rows += job.w->rows;

  struct Chunk {
    const MatmulJob* job;
    Range rows;
  };
  const int64_t step = chunk_rows(total_rows, compute.pool->n_workers());
  std::vector<Chunk> chunks;
  chunks.reserve(static_cast<size_t>(total_rows / step) + jobs.size());
  for (const MatmulJob& job : jobs) {
    for (int64_t begin = 0; begin < job.w->rows; begin += step) {
      chunks.push_back({&job, {begin, std::min(begin + step, job.w->rows)}});
    }
  }
  compute.pool->parallel_for(static_cast<int64_t>(chunks.size()), 1, [&](Range range, int) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Chunk& chunk = chunks[static_cast<size_t>(i)];
      matmul_exact(compute.isa, *chunk.job->w, chunk.rows, chunk.job->x, chunk.job->y);
    }
  });
}

void for_each_row(const Compute& compute, int64_t n_rows, FunctionRef<void(Range)> body) {
  if (n_rows < kSerialRows || compute.pool->n_workers() == 1) {
    body({0, n_rows});
    return;
  }
  const int64_t chunk =
      std::max<int64_t>(1, n_rows / (compute.pool->n_workers() * kChunksPerWorker));
  compute.pool->parallel_for(n_rows, chunk, [&](Range range, int) { body(range); });
}

void add_rows(const Compute& compute, Rows<const float> from, Rows<float> to) {
  for_each_row(compute, to.n_rows, [&](Range range) {
    for (int64_t t = range.begin; t < range.end; ++t) {
      const float* const source = from.row(t);
      float* const target = to.row(t);
      for (int64_t i = 0; i < to.cols; ++i) target[i] += source[i];
    }
  });
}

void add_bias(std::span<const float> bias, Rows<float> rows, Range range) {
  if (bias.empty()) return;
  for (int64_t t = range.begin; t < range.end; ++t) {
    float* const row = rows.row(t);
    for (size_t i = 0; i < bias.size(); ++i) row[i] += bias[i];
  }
}

}  // namespace penstock
