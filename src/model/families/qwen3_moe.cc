// qwen3_moe: qwen3 attention; mixtures on the layers that decoder_sparse_step and mlp_only_layers
// leave to them.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_qwen3_moe(const ModelSpec& spec) {
  DecoderParts parts;
  for (const LayerSpec& layer : spec.layers) {
    parts.push_back({.attention = {.qkv_bias = spec.qkv_bias,
                                   .o_bias = spec.o_bias,
                                   .qk_norm = true,
                                   .window = layer.window},
                     .ffn = ffn_part(spec, layer)});
  }
  return parts;
}

}  // namespace penstock
