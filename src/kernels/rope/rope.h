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

// The table of a valid spec whose `factor` is resolved (a file that gives none has it from its
// lengths) and whose original_context is 0 where it is the context length itself.
// `length` is the sequence's planned final length: dynamic and longrope choose their table by it,
// once for a request, so that keys already cached stay right; the other types ignore it.
// Formulas: docs/models.md, "Rope". Su et al. arXiv:2104.09864; yarn: arXiv:2309.00071; longrope:
// arXiv:2402.13753.
RopeTable rope_table(const RopeSpec& spec, int64_t context_length, int64_t length);

// cos and sin [rotary_dims / 2] of one position, times the attention factor: computed in float64
// and rounded once.
void rope_angles(const RopeTable& table, int64_t position, std::span<float> cos,
                 std::span<float> sin);

// Rotates the first 2 * cos.size() elements of each head of one token in place: heads [n_heads,
// head_dim].
//   y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin   (each product rounded, then the sum: the same on
//   every isa)
void rope_rotate(RopePairs pairs, std::span<const float> cos, std::span<const float> sin,
                 Rows<float> heads);

}  // namespace penstock
