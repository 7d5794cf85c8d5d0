#include "checkpoint/needed_tensors.h"

#include <array>

#include "base/check.h"

namespace penstock {
namespace {

struct PartNames {
  TensorPart part;
  std::string_view canonical;
  std::string_view hf;       // below model.layers.N. for parts of a layer
  std::string_view hf_leaf;  // "weight", "bias", ...
  std::string_view gguf;     // below blk.N. for parts of a layer
};

using enum TensorPart;

constexpr std::array kNames = std::to_array<PartNames>({
    {kEmbed, "embed", "model.embed_tokens", "weight", "token_embd.weight"},
    {kFinalNorm, "final_norm", "model.norm", "weight", "output_norm.weight"},
    {kHead, "head", "lm_head", "weight", "output.weight"},
    {kAttnNorm, "attn_norm", "input_layernorm", "weight", "attn_norm.weight"},
    {kQ, "q", "self_attn.q_proj", "weight", "attn_q.weight"},
    {kK, "k", "self_attn.k_proj", "weight", "attn_k.weight"},
    {kV, "v", "self_attn.v_proj", "weight", "attn_v.weight"},
    {kO, "o", "self_attn.o_proj", "weight", "attn_output.weight"},
    {kQBias, "q_bias", "self_attn.q_proj", "bias", "attn_q.bias"},
    {kKBias, "k_bias", "self_attn.k_proj", "bias", "attn_k.bias"},
    {kVBias, "v_bias", "self_attn.v_proj", "bias", "attn_v.bias"},
    {kOBias, "o_bias", "self_attn.o_proj", "bias", "attn_output.bias"},
    {kQNorm, "q_norm", "self_attn.q_norm", "weight", "attn_q_norm.weight"},
    {kKNorm, "k_norm", "self_attn.k_norm", "weight", "attn_k_norm.weight"},
    {kFfnNorm, "ffn_norm", "post_attention_layernorm", "weight", "ffn_norm.weight"},
    {kGate, "gate", "mlp.gate_proj", "weight", "ffn_gate.weight"},
    {kUp, "up", "mlp.up_proj", "weight", "ffn_up.weight"},
    {kDown, "down", "mlp.down_proj", "weight", "ffn_down.weight"},
    {kGateBias, "gate_bias", "mlp.gate_proj", "bias", "ffn_gate.bias"},
    {kUpBias, "up_bias", "mlp.up_proj", "bias", "ffn_up.bias"},
    {kDownBias, "down_bias", "mlp.down_proj", "bias", "ffn_down.bias"},
    {kRouter, "router", "mlp.gate", "weight", "ffn_gate_inp.weight"},
    {kRouterBias, "router_bias", "mlp.gate", "e_score_correction_bias", "exp_probs_b.bias"},
    {kSharedGate, "shared.gate", "mlp.shared_experts.gate_proj", "weight", "ffn_gate_shexp.weight"},
    {kSharedUp, "shared.up", "mlp.shared_experts.up_proj", "weight", "ffn_up_shexp.weight"},
    {kSharedDown, "shared.down", "mlp.shared_experts.down_proj", "weight", "ffn_down_shexp.weight"},
    {kExpertGate, "gate", "gate_proj", "weight", "ffn_gate_exps.weight"},
    {kExpertUp, "up", "up_proj", "weight", "ffn_up_exps.weight"},
    {kExpertDown, "down", "down_proj", "weight", "ffn_down_exps.weight"},
});

const PartNames& names_of(TensorPart part) {
  const PartNames& names = kNames[static_cast<size_t>(part)];
  PENSTOCK_CHECK(names.part == part, "the table of names is not in the order of TensorPart");
  return names;
}

// Mixtral's experts: w1 (silu), w3 (linear), w2 (back to the hidden size).
std::string_view mixtral_expert(TensorPart part) {
  return part == kExpertGate ? "w1" : part == kExpertUp ? "w3" : "w2";
}

bool is_plain(Format format) {
  return format == Format::kF32 || format == Format::kF16 || format == Format::kBF16;
}

Result<void> check_bytes(std::string_view tensor, std::string_view what, uint64_t found,
                         uint64_t expected) {
  if (found == expected) return {};
  return fail(ErrorKind::kInvalidData, "tensor {} has {} bytes of {}, expected {}", tensor, found,
              what, expected);
}

uint64_t scales_bytes(const StoredTensor& stored) {
  return scales_bytes(MatrixView{.format = stored.format,
                                 .rows = stored.rows,
                                 .cols = stored.cols,
                                 .scale_format = stored.scale_format,
                                 .group_cols = stored.group_cols,
                                 .block_rows = stored.block_rows});
}

// Visits the tensors of a spec one by one until the visitor fails.
class Visitor {
 public:
  Visitor(const ModelSpec& spec, const std::function<Result<void>(const NeededTensor&)>& visit)
      : spec_(spec), visit_(visit) {}

  Result<void> all() {
    PENSTOCK_TRY(matrix(kEmbed, spec_.vocab_size, spec_.hidden_dim));
    for (layer_ = 0; layer_ < spec_.n_layers(); ++layer_) PENSTOCK_TRY(one_layer());
    layer_ = -1;
    PENSTOCK_TRY(vector(kFinalNorm, spec_.hidden_dim));
    return spec_.tied_head ? Result<void>{} : matrix(kHead, spec_.vocab_size, spec_.hidden_dim);
  }

 private:
  Result<void> matrix(TensorPart part, int64_t rows, int64_t cols) const {
    return visit_({.part = part, .layer = layer_, .expert = expert_, .rows = rows, .cols = cols});
  }
  Result<void> vector(TensorPart part, int64_t size) const { return matrix(part, 1, size); }

  Result<void> one_layer() {
    PENSTOCK_TRY(attention());
    PENSTOCK_TRY(vector(kFfnNorm, spec_.hidden_dim));
    return spec_.layers[static_cast<size_t>(layer_)].is_moe ? experts() : dense();
  }

  Result<void> attention() const {
    const int64_t hidden = spec_.hidden_dim;
    const int64_t q_dim = int64_t{spec_.n_heads} * spec_.head_dim;
    const int64_t kv_dim = int64_t{spec_.n_kv_heads} * spec_.head_dim;
    PENSTOCK_TRY(vector(kAttnNorm, hidden));
    PENSTOCK_TRY(matrix(kQ, q_dim, hidden));
    PENSTOCK_TRY(matrix(kK, kv_dim, hidden));
    PENSTOCK_TRY(matrix(kV, kv_dim, hidden));
    PENSTOCK_TRY(matrix(kO, hidden, q_dim));
    if (spec_.qkv_bias) {
      PENSTOCK_TRY(vector(kQBias, q_dim));
      PENSTOCK_TRY(vector(kKBias, kv_dim));
      PENSTOCK_TRY(vector(kVBias, kv_dim));
    }
    if (spec_.o_bias) PENSTOCK_TRY(vector(kOBias, hidden));
    if (spec_.qk_norm) {
      PENSTOCK_TRY(vector(kQNorm, spec_.head_dim));
      PENSTOCK_TRY(vector(kKNorm, spec_.head_dim));
    }
    return {};
  }

  Result<void> dense() const {
    PENSTOCK_TRY(feed_forward(kGate, kUp, kDown, spec_.ffn_dim));
    if (!spec_.mlp_bias) return {};
    PENSTOCK_TRY(vector(kGateBias, spec_.ffn_dim));
    PENSTOCK_TRY(vector(kUpBias, spec_.ffn_dim));
    return vector(kDownBias, spec_.hidden_dim);
  }

  Result<void> experts() {
    const MoeSpec& moe = spec_.moe;
    PENSTOCK_TRY(matrix(kRouter, moe.n_experts, spec_.hidden_dim));
    if (moe.router.has_bias) PENSTOCK_TRY(vector(kRouterBias, moe.n_experts));
    if (moe.shared_dim > 0) {
      PENSTOCK_TRY(feed_forward(kSharedGate, kSharedUp, kSharedDown, moe.shared_dim));
    }
    for (expert_ = 0; expert_ < moe.n_experts; ++expert_) {
      PENSTOCK_TRY(feed_forward(kExpertGate, kExpertUp, kExpertDown, moe.expert_dim));
    }
    expert_ = -1;
    return {};
  }

  Result<void> feed_forward(TensorPart gate, TensorPart up, TensorPart down, int64_t dim) const {
    PENSTOCK_TRY(matrix(gate, dim, spec_.hidden_dim));
    PENSTOCK_TRY(matrix(up, dim, spec_.hidden_dim));
    return matrix(down, spec_.hidden_dim, dim);
  }

  const ModelSpec& spec_;
  const std::function<Result<void>(const NeededTensor&)>& visit_;
  int layer_ = -1;
  int expert_ = -1;
};

}  // namespace

bool NeededTensor::is_vector() const {
  switch (part) {
    case kFinalNorm:
    case kAttnNorm:
    case kQBias:
    case kKBias:
    case kVBias:
    case kOBias:
    case kQNorm:
    case kKNorm:
    case kFfnNorm:
    case kGateBias:
    case kUpBias:
    case kDownBias:
    case kRouterBias:
      return true;
    default:
      return false;
  }
}

std::string canonical_name(const NeededTensor& tensor) {
  const std::string_view part = names_of(tensor.part).canonical;
  if (tensor.layer < 0) return std::string(part);
  if (tensor.expert < 0) return fmt::format("layers.{}.{}", tensor.layer, part);
  return fmt::format("layers.{}.experts.{}.{}", tensor.layer, tensor.expert, part);
}

Result<void> for_each_needed(const ModelSpec& spec,
                             const std::function<Result<void>(const NeededTensor&)>& visit) {
  return Visitor(spec, visit).all();
}

Result<void> check_tensor(const NeededTensor& needed, const StoredTensor& stored) {
  const std::string& name = stored.source_name;
  if (stored.rows != needed.rows || stored.cols != needed.cols) {
    return fail(ErrorKind::kInvalidData,
                "tensor {} is {} x {}, but the model's shape makes it {} x {}", name, stored.rows,
                stored.cols, needed.rows, needed.cols);
  }
  if (needed.is_vector() && !is_plain(stored.format)) {
    return fail(ErrorKind::kUnsupported, "tensor {} is in format {}, expected f32, f16 or bf16",
                name, info(stored.format).name);
  }
  const auto whole = data_bytes(stored.format, stored.rows, stored.cols);
  if (!whole) {
    return fail(ErrorKind::kInvalidData, "tensor {} is {} x {}, which format {} cannot hold", name,
                stored.rows, stored.cols, info(stored.format).name);
  }
  PENSTOCK_TRY(check_bytes(name, "weights", stored.data.bytes, *whole));
  return check_bytes(name, "scales", stored.scales.bytes, scales_bytes(stored));
}

Result<void> check_tensors(const ModelSpec& spec, const TensorTable& tensors) {
  return for_each_needed(spec, [&](const NeededTensor& needed) -> Result<void> {
    const std::string name = canonical_name(needed);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      return fail(ErrorKind::kNotFound, "tensor {} is missing", name);
    }
    return check_tensor(needed, found->second);
  });
}

std::string hf_module(Family family, const NeededTensor& tensor) {
  const std::string_view part = names_of(tensor.part).hf;
  if (tensor.layer < 0) return std::string(part);
  const bool is_mixtral = family == Family::kMixtral;
  if (tensor.expert >= 0) {
    return fmt::format("model.layers.{}.{}.experts.{}.{}", tensor.layer,
                       is_mixtral ? "block_sparse_moe" : "mlp", tensor.expert,
                       is_mixtral ? mixtral_expert(tensor.part) : part);
  }
  const bool is_mixtral_router = is_mixtral && tensor.part == kRouter;
  return fmt::format("model.layers.{}.{}", tensor.layer,
                     is_mixtral_router ? "block_sparse_moe.gate" : part);
}

std::string_view hf_leaf(TensorPart part) { return names_of(part).hf_leaf; }

std::string gguf_name(Family family, const NeededTensor& tensor) {
  const std::string_view part = names_of(tensor.part).gguf;
  if (tensor.layer < 0) return std::string(part);
  const bool is_glm_norm = family == Family::kGlm4Moe && tensor.part == kFfnNorm;
  return fmt::format("blk.{}.{}", tensor.layer, is_glm_norm ? "post_attention_norm.weight" : part);
}

}  // namespace penstock
