// mixtral: llama attention without biases; every layer a mixture whose chosen weights sum to 1.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_mixtral(const ModelSpec& spec) {
  DecoderParts parts;
  for (const LayerSpec& layer : spec.layers) {
    parts.push_back({.attention = {.window = layer.window}, .ffn = ffn_part(spec, layer)});
  }
  return parts;
}

}  // namespace penstock
