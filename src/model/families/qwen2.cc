// qwen2: always a bias on q, k and v, never one on o; a window only on the layers the config names.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_qwen2(const ModelSpec& spec) {
  DecoderParts parts;
  for (const LayerSpec& layer : spec.layers) {
    parts.push_back(
        {.attention = {.qkv_bias = true, .window = layer.window}, .ffn = ffn_part(spec, layer)});
  }
  return parts;
}

}  // namespace penstock
