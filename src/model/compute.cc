#include "model/compute.h"

#include <algorithm>
#include <vector>

#include "cpu/share_rows.h"
#include "kernels/matmul/chunk_rows.h"
#include "kernels/matmul/matmul.h"

namespace penstock {
namespace {

bool is_same_input(const MatmulJob& a, const MatmulJob& b) {
  return a.x.data == b.x.data && a.x.n_rows == b.x.n_rows && a.n_generated == b.n_generated;
}

// Jobs that share their input stand next to each other: it is made ready once. Returns the index of
// each job's in compute.activations; none in the exact class.
std::vector<size_t> prepare_activations(const Compute& compute, std::span<const MatmulJob> jobs) {
  std::vector<size_t> of_job;
  if (compute.precision == Precision::kExact) return of_job;
  struct Part {
    FastActivations* of;
    int64_t index;
  };
  std::vector<Part> parts;
  size_t n_inputs = 0;
  int64_t most_cols = 0;
  std::vector<FastActivations>& all = *compute.activations;
  if (all.size() < jobs.size()) all.resize(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (i == 0 || !is_same_input(jobs[i - 1], jobs[i])) {
      FastActivations& next = all[n_inputs++];
      const bool integer = std::ranges::any_of(jobs.subspan(i), [&](const MatmulJob& job) {
        return is_same_input(job, jobs[i]) && has_integer_kernel(compute.isa, *job.w);
      });
      most_cols = std::max(most_cols, jobs[i].x.cols);
      next.begin(compute.isa, jobs[i].x, jobs[i].n_generated, integer);
      for (int64_t part = 0; part < next.n_parts(); ++part) parts.push_back({&next, part});
    }
    of_job.push_back(n_inputs - 1);
  }
  const auto n_parts = static_cast<int64_t>(parts.size());
  for_each_row(compute, n_parts, most_cols * kConversion, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Part& part = parts[static_cast<size_t>(i)];
      part.of->prepare({part.index, part.index + 1});
    }
  });
  return of_job;
}

}  // namespace

void run_matmuls(const Compute& compute, std::span<const MatmulJob> jobs) {
  const std::vector<size_t> activations = prepare_activations(compute, jobs);
  int64_t total_rows = 0;
  for (const MatmulJob& job : jobs) total_rows += job.w->rows;

  struct Chunk {
    size_t job;
    Range rows;
  };
  const int64_t step = chunk_rows(total_rows, compute.pool->n_workers());
  std::vector<Chunk> chunks;
  chunks.reserve(static_cast<size_t>(total_rows / step) + jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    for (int64_t begin = 0; begin < jobs[i].w->rows; begin += step) {
      chunks.push_back({i, {begin, std::min(begin + step, jobs[i].w->rows)}});
    }
  }
  compute.pool->parallel_for_shares(static_cast<int64_t>(chunks.size()), 1, [&](Range range, int) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Chunk& chunk = chunks[static_cast<size_t>(i)];
      const MatmulJob& job = jobs[chunk.job];
      if (compute.precision == Precision::kExact) {
        matmul_exact(compute.isa, *job.w, chunk.rows, job.x, job.y);
      } else {
        matmul_fast(compute.isa, *job.w, chunk.rows, (*compute.activations)[activations[chunk.job]],
                    job.y);
      }
    }
  });
}

void ThreadProducts::set_input(const Compute& compute, Rows<const float> x, int64_t n_generated,
                               std::span<const MatrixView* const> of) {
  isa_ = compute.isa;
  precision_ = compute.precision;
  x_ = x;
  if (precision_ == Precision::kExact) return;
  const bool integer = std::ranges::any_of(
      of, [&](const MatrixView* w) { return has_integer_kernel(compute.isa, *w); });
  ready_.begin(compute.isa, x, n_generated, integer);
  ready_.prepare({0, ready_.n_parts()});
}

void ThreadProducts::multiply(const MatrixView& w, Rows<float> y) const {
  if (precision_ == Precision::kExact) {
    matmul_exact(isa_, w, {0, w.rows}, x_, y);
  } else {
    matmul_fast(isa_, w, {0, w.rows}, ready_, y);
  }
}

OperationWork work_of(std::span<const MatmulJob> jobs) {
  OperationWork work;
  for (const auto& [w, x, y, n_generated] : jobs) {
    work.bytes += static_cast<double>(w->data.size() + w->scales.size() + w->zeros.size());
    work.operations += 2.0 * static_cast<double>(w->rows) * static_cast<double>(w->cols) *
                       static_cast<double>(x.n_rows);
  }
  return work;
}

void for_each_row(const Compute& compute, int64_t n_rows, int64_t row_work,
                  FunctionRef<void(Range)> body) {
  share_rows(*compute.pool, n_rows, row_work, body);
}

void add_rows(const Compute& compute, Rows<const float> from, Rows<float> to) {
  for_each_row(compute, to.n_rows, to.cols * kPlainPass, [&](Range range) {
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
