// llama (Llama 2 and 3, Mistral, SmolLM2): plain grouped-query attention; biases only where the
// config asks for them.
#include "model/families/families.h"

namespace penstock {

DecoderParts compose_llama(const ModelSpec& spec) {
  DecoderParts parts;
  for (const LayerSpec& layer : spec.layers) {
    parts.push_back(
        {.attention = {.qkv_bias = spec.qkv_bias, .o_bias = spec.o_bias, .window = layer.window},
         .ffn = ffn_part(spec, layer)});
  }
  return parts;
}

}  // namespace penstock
