// RMS norm over 16 lanes, for the isa files: include kernels/lanes_<isa>.h first.
#pragma once

#include <span>

#include "tensor/rows.h"

namespace penstock {
namespace {

inline void norm_row(const float* x, const float* w, int64_t cols, float eps, float* y) {
  const int64_t whole = cols / kLanes * kLanes;
  const int64_t rest = cols - whole;
  Lanes squares = zero();
  for (int64_t i = 0; i < whole; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
  if (rest > 0) {
    const Lanes last = load_first(x + whole, rest);
    squares = fma(last, last, squares);
  }

  const Lanes factor = all(1.0F / square_root(sum(squares) / static_cast<float>(cols) + eps));
  for (int64_t i = 0; i < whole; i += kLanes) store(y + i, load(w + i) * (load(x + i) * factor));
  if (rest > 0) {
    const Lanes last = load_first(w + whole, rest) * (load_first(x + whole, rest) * factor);
    store_first(y + whole, rest, last);
  }
}

inline void norm_rows(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y) {
  for (int64_t t = 0; t < x.n_rows; ++t) norm_row(x.row(t), w.data(), x.cols, eps, y.row(t));
}

}  // namespace
}  // namespace penstock
