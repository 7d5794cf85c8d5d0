#include "model/decoder_spec.h"

#include "model/families/families.h"

namespace penstock {
namespace {

// A spec flag that the family's blocks would ignore must not be ignored silently.
Result<void> refuse_ignored(const ModelSpec& spec, const LayerParts& parts) {
  const auto differs = [&](bool asked, bool built, std::string_view what) -> Result<void> {
    if (asked == built) return {};
    return fail(ErrorKind::kUnsupported, "the {} family {} {}, but this model's configuration {}",
                to_string(spec.family), built ? "always has" : "has no", what,
                asked ? "asks for it" : "has none");
  };
  PENSTOCK_TRY(differs(spec.qkv_bias, parts.attention.qkv_bias, "bias on q, k and v"));
  PENSTOCK_TRY(differs(spec.o_bias, parts.attention.o_bias, "bias on the attention output"));
  PENSTOCK_TRY(differs(spec.qk_norm, parts.attention.qk_norm, "norm of q and k heads"));
  return {};
}

DecoderParts compose_family(const ModelSpec& spec) {
  switch (spec.family) {
    case Family::kLlama:
      return compose_llama(spec);
    case Family::kQwen2:
      return compose_qwen2(spec);
    case Family::kQwen3:
      return compose_qwen3(spec);
    case Family::kMixtral:
      return compose_mixtral(spec);
    case Family::kQwen3Moe:
      return compose_qwen3_moe(spec);
    case Family::kGlm4Moe:
      return compose_glm4_moe(spec);
  }
  return {};
}

}  // namespace

std::variant<DensePart, MoePart> ffn_part(const ModelSpec& spec, const LayerSpec& layer) {
  if (!layer.is_moe) return DensePart{.dim = spec.ffn_dim, .bias = spec.mlp_bias};
  return MoePart{.n_experts = spec.moe.n_experts,
                 .top_k = spec.moe.top_k,
                 .expert_dim = spec.moe.expert_dim,
                 .shared_dim = spec.moe.shared_dim,
                 .router = spec.moe.router};
}

Result<DecoderParts> compose(const ModelSpec& spec) {
  DecoderParts parts = compose_family(spec);
  if (parts.empty()) return fail(ErrorKind::kInvalidData, "a model of no layers");
  for (size_t i = 0; i < parts.size(); ++i) {
    PENSTOCK_TRY(refuse_ignored(spec, parts[i]));
    if (spec.layers[i].is_moe && spec.mlp_bias) {
      return fail(ErrorKind::kUnsupported,
                  "layer {} is a mixture with biases on its experts, which no family here has", i);
    }
    if (spec.layers[i].window != parts[i].attention.window) {
      return fail(ErrorKind::kUnsupported,
                  "layer {} has a sliding window, which the {} family has not", i,
                  to_string(spec.family));
    }
  }
  return parts;
}

}  // namespace penstock
