// qwen3: a norm of each q and k head before rope.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_qwen3(const ModelSpec& spec) {
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
