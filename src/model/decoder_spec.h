// What a family is made of: the blocks of each layer, composed by one short file per family from a
// ModelSpec.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_spec.h"

namespace penstock {

// Grouped-query attention: biases on the projections, a norm of each q and k head, a sliding
// window.
struct AttentionPart {
  bool qkv_bias = false;
  bool o_bias = false;
  bool qk_norm = false;
  int64_t window = 0;  // 0: all earlier tokens
};

// Wd (silu(Wg h) * (Wu h)), with or without biases.
struct DensePart {
  int64_t dim = 0;
  bool bias = false;
};

// The chosen experts' outputs, weighted, plus a shared expert's where there is one.
struct MoePart {
  int n_experts = 0;
  int top_k = 0;
  int64_t expert_dim = 0;
  int64_t shared_dim = 0;
  RouterSpec router = {};
};

// x += attention(norm(x));  x += ffn(norm(x))
struct LayerParts {
  AttentionPart attention = {};
  std::variant<DensePart, MoePart> ffn = DensePart{};
};

using DecoderParts = std::vector<LayerParts>;  // one for each layer

// The parts of `spec`'s family; an error when the spec asks for what the family does not have.
Result<DecoderParts> compose(const ModelSpec& spec);

}  // namespace penstock
