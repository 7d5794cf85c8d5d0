#include "checkpoint/gguf_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/gguf_metadata.h"

namespace penstock {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxCount = 65535;  // of layers, and of experts

struct Architecture {
  std::string_view name;
  Family family;
};
constexpr std::array kArchitectures = std::to_array<Architecture>({
    {"llama", Family::kLlama},  // mixtral too: told apart by its experts
    {"qwen2", Family::kQwen2},
    {"qwen3", Family::kQwen3},
    {"qwen3moe", Family::kQwen3Moe},
    {"glm4moe", Family::kGlm4Moe},
});

class SpecReader {
 public:
  SpecReader(std::span<const GgufFile> files, const GgufModel& model)
      : files_(files), model_(model), metadata_(model.metadata) {}

  Result<ModelSpec> read() {
    PENSTOCK_TRY(read_architecture());
    PENSTOCK_TRY(read_dims());
    PENSTOCK_TRY(read_heads());
    PENSTOCK_TRY(read_layers());
    PENSTOCK_TRY(read_rope());
    if (spec_.moe.n_experts > 0) PENSTOCK_TRY(read_moe());
    read_options();
    PENSTOCK_TRY(validate(spec_));
    return std::move(spec_);
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

  Result<int64_t> required(std::string_view name, int64_t low, int64_t high) const {
    PENSTOCK_ASSIGN(const auto value, metadata_.integer_of_all_layers(key(name), low, high));
    if (value) return *value;
    return fail(ErrorKind::kInvalidData, "metadata \"{}\" is missing", key(name));
  }
  Result<int64_t> optional(std::string_view name, int64_t low, int64_t high,
                           int64_t otherwise) const {
    PENSTOCK_ASSIGN(const auto value, metadata_.integer_of_all_layers(key(name), low, high));
    return value.value_or(otherwise);
  }
  Result<double> number(std::string_view name, double otherwise) const {
    PENSTOCK_ASSIGN(const auto value, metadata_.number(key(name)));
    return value.value_or(otherwise);
  }
  bool has_tensor(std::string_view name) const { return model_.find(name) != nullptr; }

  Result<void> read_architecture() {
    PENSTOCK_ASSIGN(auto name, metadata_.string("general.architecture"));
    if (!name) {
      return fail(ErrorKind::kInvalidData, "metadata \"general.architecture\" is missing");
    }
    architecture_ = *std::move(name);
    std::vector<std::string_view> known;
    for (const Architecture& architecture : kArchitectures) {
      if (architecture.name == architecture_) spec_.family = architecture.family;
      known.push_back(architecture.name);
    }
    if (std::ranges::find(known, architecture_) == known.end()) {
      return fail(ErrorKind::kUnsupported,
                  "architecture \"{}\" is not supported; GGUF architectures that are: {}",
                  architecture_, fmt::join(known, ", "));
    }
    PENSTOCK_ASSIGN(const int64_t n_experts, optional("expert_count", 0, kMaxCount, 0));
    spec_.moe.n_experts = static_cast<int>(n_experts);
    if (spec_.family == Family::kLlama && n_experts > 0) spec_.family = Family::kMixtral;
    return {};
  }

  Result<void> read_dims() {
    PENSTOCK_ASSIGN(spec_.hidden_dim, required("embedding_length", 1, kMaxInt));
    PENSTOCK_ASSIGN(spec_.context_length, required("context_length", 1, kMaxInt));
    PENSTOCK_ASSIGN(spec_.ffn_dim, optional("feed_forward_length", 0, kMaxInt, 0));
    PENSTOCK_ASSIGN(spec_.rms_eps, number("attention.layer_norm_rms_epsilon", 0));
    // A file without the key: the embedding's rows say it.
    const GgufPlacedTensor* embed = model_.find("token_embd.weight");
    const int64_t embed_rows =
        embed != nullptr && embed->tensor.dims.size() == 2 && embed->tensor.dims[1] <= kMaxInt
            ? static_cast<int64_t>(embed->tensor.dims[1])
            : 0;
    PENSTOCK_ASSIGN(spec_.vocab_size, optional("vocab_size", 1, kMaxInt, embed_rows));
    return {};
  }

  Result<void> read_heads() {
    PENSTOCK_ASSIGN(const int64_t n_heads, required("attention.head_count", 1, kMaxInt));
    PENSTOCK_ASSIGN(const int64_t n_kv_heads,
                    optional("attention.head_count_kv", 1, kMaxInt, n_heads));
    PENSTOCK_ASSIGN(const int64_t head_dim,
                    optional("attention.key_length", 1, kMaxInt, spec_.hidden_dim / n_heads));
    PENSTOCK_ASSIGN(const int64_t value_dim,
                    optional("attention.value_length", 1, kMaxInt, head_dim));
    if (value_dim != head_dim) {
      return fail(ErrorKind::kUnsupported, "metadata \"{}\" is {}, expected {}, the size of a key",
                  key("attention.value_length"), value_dim, head_dim);
    }
    spec_.n_heads = static_cast<int>(n_heads);
    spec_.n_kv_heads = static_cast<int>(n_kv_heads);
    spec_.head_dim = static_cast<int>(head_dim);
    return {};
  }

  Result<void> read_layers() {
    PENSTOCK_ASSIGN(const int64_t n_blocks, required("block_count", 1, kMaxCount));
    // The count includes the layers that only predict further tokens (MTP), which come last.
    PENSTOCK_ASSIGN(const int64_t n_mtp, optional("nextn_predict_layers", 0, n_blocks - 1, 0));
    PENSTOCK_ASSIGN(const int64_t n_dense, optional("leading_dense_block_count", 0, n_blocks, 0));
    PENSTOCK_ASSIGN(const int64_t window, optional("attention.sliding_window", 0, kMaxInt, 0));
    if (window > 0 && metadata_.contains(key("attention.sliding_window_pattern"))) {
      return fail(ErrorKind::kUnsupported,
                  "metadata \"{}\" mixes layers with and without a window, which architecture {} "
                  "cannot do here",
                  key("attention.sliding_window_pattern"), architecture_);
    }
    for (int64_t i = 0; i < n_blocks - n_mtp; ++i) {
      spec_.layers.push_back({.is_moe = spec_.moe.n_experts > 0 && i >= n_dense, .window = window});
    }
    return {};
  }

  Result<void> read_rope() {
    RopeSpec& rope = spec_.rope;
    // The converter of this architecture turns halves into neighbours (docs/models.md, "Rope").
    if (architecture_ == "llama") rope.pairs = RopePairs::kInterleaved;
    PENSTOCK_ASSIGN(const int64_t rotary_dims,
                    optional("rope.dimension_count", 2, spec_.head_dim, spec_.head_dim));
    rope.rotary_dims = static_cast<int>(rotary_dims);
    PENSTOCK_ASSIGN(rope.theta, number("rope.freq_base", 10000.0));
    if (const GgufPlacedTensor* divisors = model_.find("rope_freqs.weight")) {
      PENSTOCK_ASSIGN(rope.freq_divisors, read_gguf_floats(files_, *divisors));
    }
    PENSTOCK_ASSIGN(const auto type, metadata_.string(key("rope.scaling.type")));
    if (type && *type == "yarn") return read_yarn();
    if (type && *type != "linear" && *type != "none") {
      return fail(ErrorKind::kUnsupported,
                  "rope type \"{}\" is not supported; GGUF rope types that are: none, linear, yarn",
                  *type);
    }
    if (type && *type == "none") return {};
    return read_linear();
  }

  Result<void> read_linear() {
    // Files from before rope.scaling.* have the factor alone.
    PENSTOCK_ASSIGN(const double old_factor, number("rope.scale_linear", 1.0));
    PENSTOCK_ASSIGN(const double factor, number("rope.scaling.factor", old_factor));
    if (factor == 1.0 || factor == 0.0) return {};  // 0: unset
    spec_.rope.type = RopeType::kLinear;
    spec_.rope.factor = factor;
    return {};
  }

  // ggml rounds yarn's range to whole dimensions always, and multiplies its own attention factor
  // with the key's.
  Result<void> read_yarn() {
    RopeSpec& rope = spec_.rope;
    rope.type = RopeType::kYarn;
    PENSTOCK_ASSIGN(rope.factor, number("rope.scaling.factor", 1.0));
    PENSTOCK_ASSIGN(rope.original_context, optional("rope.scaling.original_context_length", 1,
                                                    kMaxInt, spec_.context_length));
    PENSTOCK_ASSIGN(rope.beta_fast, number("rope.scaling.yarn_beta_fast", 32.0));
    PENSTOCK_ASSIGN(rope.beta_slow, number("rope.scaling.yarn_beta_slow", 1.0));
    PENSTOCK_ASSIGN(const double multiplier, number("rope.scaling.yarn_log_multiplier", 0.0));
    if (multiplier != 0.0) {
      return fail(ErrorKind::kUnsupported,
                  "metadata \"{}\" is {}, expected none for architecture {}",
                  key("rope.scaling.yarn_log_multiplier"), multiplier, architecture_);
    }
    PENSTOCK_ASSIGN(const auto factor, metadata_.number(key("rope.scaling.attn_factor")));
    if (factor && rope.factor > 0) {
      const double own = rope.factor > 1 ? 1.0 + 0.1 * std::log(rope.factor) : 1.0;
      rope.attention_factor = *factor * own;
    }
    return {};
  }

  Result<void> read_moe() {
    MoeSpec& moe = spec_.moe;
    PENSTOCK_ASSIGN(const int64_t top_k, required("expert_used_count", 1, moe.n_experts));
    PENSTOCK_ASSIGN(const int64_t expert_dim,
                    optional("expert_feed_forward_length", 1, kMaxInt, spec_.ffn_dim));
    PENSTOCK_ASSIGN(const int64_t n_shared, optional("expert_shared_count", 0, kMaxCount, 0));
    PENSTOCK_ASSIGN(const int64_t shared_dim, optional("expert_shared_feed_forward_length", 0,
                                                       kMaxInt, n_shared * expert_dim));
    moe.top_k = static_cast<int>(top_k);
    moe.expert_dim = static_cast<int>(expert_dim);
    if (shared_dim > kMaxInt) {
      return fail(ErrorKind::kInvalidData,
                  "metadata \"{}\" is {}, which makes the shared expert {} wide",
                  key("expert_shared_count"), n_shared, shared_dim);
    }
    moe.shared_dim = static_cast<int>(shared_dim);
    return read_router();
  }

  Result<void> read_router() {
    const bool is_glm = spec_.family == Family::kGlm4Moe;
    RouterSpec& router = spec_.moe.router;
    constexpr int64_t kSigmoid = 2;  // 1: softmax; 0: unset
    PENSTOCK_ASSIGN(const int64_t score, optional("expert_gating_func", 0, kMaxInt, 0));
    if (score > kSigmoid) {
      return fail(ErrorKind::kUnsupported,
                  "metadata \"{}\" is {}, expected 1 (softmax) or 2 (sigmoid)",
                  key("expert_gating_func"), score);
    }
    const bool is_sigmoid = score == 0 ? is_glm : score == kSigmoid;
    router.score = is_sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
    PENSTOCK_ASSIGN(const auto renormalize, metadata_.boolean(key("expert_weights_norm")));
    router.renormalize = renormalize.value_or(true);
    PENSTOCK_ASSIGN(router.scale, number("expert_weights_scale", 1.0));
    if (router.scale == 0.0) router.scale = 1.0;  // 0: unset
    PENSTOCK_ASSIGN(const int64_t n_groups, optional("expert_group_count", 0, kMaxCount, 1));
    PENSTOCK_ASSIGN(const int64_t top_groups, optional("expert_group_used_count", 0, kMaxCount, 1));
    router.n_groups = static_cast<int>(std::max<int64_t>(n_groups, 1));
    router.top_groups = static_cast<int>(std::max<int64_t>(top_groups, 1));
    return {};
  }

  // Parts that a converter writes where the original had them.
  void read_options() {
    const auto in_any_layer = [&](std::string_view name) {
      for (int i = 0; i < spec_.n_layers(); ++i) {
        if (has_tensor(fmt::format("blk.{}.{}", i, name))) return true;
      }
      return false;
    };
    const Family family = spec_.family;
    spec_.tied_head = !has_tensor("output.weight");
    spec_.qkv_bias = family == Family::kQwen2 || in_any_layer("attn_q.bias");
    spec_.o_bias = in_any_layer("attn_output.bias");
    spec_.mlp_bias = in_any_layer("ffn_gate.bias");
    spec_.qk_norm = family == Family::kQwen3 || family == Family::kQwen3Moe ||
                    (family == Family::kGlm4Moe && in_any_layer("attn_q_norm.weight"));
    spec_.moe.router.has_bias = spec_.moe.n_experts > 0 && in_any_layer("exp_probs_b.bias");
  }

  std::span<const GgufFile> files_;
  const GgufModel& model_;
  GgufMetadata metadata_;
  std::string architecture_;
  ModelSpec spec_;
};

}  // namespace

Result<ModelSpec> gguf_spec(std::span<const GgufFile> files, const GgufModel& model) {
  return SpecReader(files, model).read();
}

}  // namespace penstock
