// glm4_moe: rope over half of each head, sigmoid router with a bias that steers the choice, a
// shared expert.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_glm4_moe(const ModelSpec& spec) {
  DecoderParts parts;
  for (const LayerSpec& layer : spec.layers) {
    parts.push_back({.attention = {.qkv_bias = spec.qkv_bias, .qk_norm = spec.qk_norm},
                     .ffn = ffn_part(spec, layer)});
  }
  return parts;
}

}  // namespace penstock
