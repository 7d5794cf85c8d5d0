// Rotary position embedding: the frequency table of each rope type, and the rotation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/model_spec.h"
#include "tensor/rows.h"

namespace penstock {

struct RopeTable {
  std::vector<double> frequencies = {};  // [rotary_dims / 2], radians per position
  double attention_factor = 1.0;         // multiplies cos and sin
};

// `length` is the sequence's planned final length: dynamic and longrope choose their table by it,
// once for a request, so that keys already cached stay right; the other types ignore it. Su et al.
// arXiv:2104.09864; yarn: arXiv:2309.00071.
RopeTable rope_table(const RopeSpec& spec, int64_t context_length, int64_t length);

// cos and sin [rotary_dims / 2] of one position, computed in float64 and rounded once.
void rope_angles(const RopeTable& table, int64_t position, std::span<float> cos,
                 std::span<float> sin);

// Rotates the first rotary_dims elements of each head of one token in place: heads [n_heads,
// head_dim].
//   y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin   (each product rounded, then the sum: the same on
//   every isa)
void rope_rotate(RopePairs pairs, std::span<const float> cos, std::span<const float> sin,
                 Rows<float> heads);

}  // namespace penstock
