// The CPU as the blocks see it: a pool and an isa, and the few ways in which blocks share work
// among the workers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/scratch.h"
#include "cpu/isa.h"
#include "cpu/pool.h"
#include "cpu/precision.h"
#include "cpu/share_rows.h"
#include "kernels/matmul/matmul_fast.h"
#include "model/profile.h"
#include "model/routing_observer.h"
#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

struct Compute {
  Pool* pool = nullptr;
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kExact;
  // Kept from step to step for its memory only; for the fast class.
  std::vector<FastActivations>* activations = nullptr;
  Profile* profile = nullptr;          // null: nobody asks where the time goes
  RoutingObserver* routing = nullptr;  // null: nobody asks which experts are chosen

  // For what decides more than it computes, like a router.
  Compute exact() const {
    Compute other = *this;
    other.precision = Precision::kExact;
    return other;
  }
};

// y = W x for all of x's rows, of which the first n_generated are generated tokens.
struct MatmulJob {
  const MatrixView* w = nullptr;
  Rows<const float> x = {};
  Rows<float> y = {};
  int64_t n_generated = 0;
};

// [n_rows, cols] of memory for what a block writes before it reads it.
inline Rows<float> scratch_rows(Scratch<float>& scratch, int64_t n_rows, int64_t cols) {
  return dense_rows(scratch.take(static_cast<size_t>(n_rows * cols)), n_rows, cols);
}

// Runs the jobs as one parallel region: their weight rows, end to end, are cut into chunks that
// workers take.
void run_matmuls(const Compute& compute, std::span<const MatmulJob> jobs);

// Products of one input with several matrices, on the calling thread alone: for work that is shared
// among workers as a whole. Kept for its memory.
class ThreadProducts {
 public:
  // x: its first n_generated rows are generated tokens. Refers to x until the next call.
  void set_input(const Compute& compute, Rows<const float> x, int64_t n_generated,
                 std::span<const MatrixView* const> of);
  // y = W x, of one of the matrices that set_input named.
  void multiply(const MatrixView& w, Rows<float> y) const;

 private:
  Isa isa_ = Isa::kScalar;
  Precision precision_ = Precision::kExact;
  Rows<const float> x_ = {};
  FastActivations ready_;
};

// What they must read and compute.
OperationWork work_of(std::span<const MatmulJob> jobs);

// Calls body for ranges that cover [0, n_rows), by cpu/share_rows.h: on this thread when they are
// too little work to be worth waking workers.
void for_each_row(const Compute& compute, int64_t n_rows, int64_t row_work,
                  FunctionRef<void(Range)> body);

// to[t] += from[t], row by row.
void add_rows(const Compute& compute, Rows<const float> from, Rows<float> to);

// rows[t] += bias, for t in range; nothing when bias is empty.
void add_bias(std::span<const float> bias, Rows<float> rows, Range range);

}  // namespace penstock
