// SwiGLU over 16 lanes, for the isa files: include kernels/lanes_<isa>.h first.
#pragma once

#include "tensor/rows.h"

namespace penstock {
namespace {

inline Lanes swiglu(Lanes gate, Lanes up) {
  return gate / (all(1.0F) + exp_lanes(negate(gate))) * up;
}

inline void swiglu_rows(Rows<const float> gate, Rows<const float> up, Rows<float> y) {
  const int64_t whole = gate.cols / kLanes * kLanes;
  const int64_t rest = gate.cols - whole;
  for (int64_t t = 0; t < gate.n_rows; ++t) {
    const float* const g = gate.row(t);
    const float* const u = up.row(t);
    for (int64_t i = 0; i < whole; i += kLanes) {
      store(y.row(t) + i, swiglu(load(g + i), load(u + i)));
    }
    if (rest > 0) {
      const Lanes last = swiglu(load_first(g + whole, rest), load_first(u + whole, rest));
      store_first(y.row(t) + whole, rest, last);
    }
  }
}

}  // namespace
}  // namespace penstock
