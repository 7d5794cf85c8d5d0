// One composer per family: model/decoder_spec.h calls the right one. Sources of the shapes:
// docs/models.md.
#pragma once

#include "model/decoder_spec.h"

namespace penstock {

DecoderParts compose_llama(const ModelSpec& spec);
DecoderParts compose_qwen2(const ModelSpec& spec);
DecoderParts compose_qwen3(const ModelSpec& spec);
DecoderParts compose_mixtral(const ModelSpec& spec);
DecoderParts compose_qwen3_moe(const ModelSpec& spec);
DecoderParts compose_glm4_moe(const ModelSpec& spec);

// The feed-forward part of one layer as the spec declares it: shared by all families, since any
// dense one may have been turned into a mixture by `penstock pack --upcycle`.
std::variant<DensePart, MoePart> ffn_part(const ModelSpec& spec, const LayerSpec& layer);

}  // namespace penstock
