#include "checkpoint/model_spec.h"

#include <array>
#include <cmath>
#include <limits>

namespace penstock {
namespace {

constexpr int64_t kMaxDim = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxLayers = 65535;  // ids of layers and experts are 16 bits wide
constexpr int kMaxExperts = 65535;

// Longrope's tables and freq_divisors have one number for each pair that turns.
template <class T>
Result<void> check_per_pair(std::string_view name, const std::vector<T>& table, int rotary_dims) {
  if (table.size() != static_cast<size_t>(rotary_dims) / 2) {
    return fail(ErrorKind::kInvalidData, "rope {} has {} numbers, expected {}", name, table.size(),
                rotary_dims / 2);
  }
  for (const T value : table) {
    if (!std::isfinite(value) || value <= 0) {
      return fail(ErrorKind::kInvalidData, "rope {} holds {}, expected numbers above 0", name,
                  value);
    }
  }
  return {};
}

Result<void> check_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kInvalidData, "{} is {}, expected {} to {}", name, value, low, high);
}

Result<void> check_positive(std::string_view name, double value) {
  if (std::isfinite(value) && value > 0) return {};
  return fail(ErrorKind::kInvalidData, "{} is {}, expected a number above 0", name, value);
}

Result<void> check_finite(std::string_view name, double value) {
  if (std::isfinite(value)) return {};
  return fail(ErrorKind::kInvalidData, "{} is {}, expected a finite number", name, value);
}

Result<void> check_yarn(const RopeSpec& rope) {
  PENSTOCK_TRY(check_positive("rope beta_fast", rope.beta_fast));
  PENSTOCK_TRY(check_positive("rope beta_slow", rope.beta_slow));
  PENSTOCK_TRY(check_finite("rope mscale", rope.mscale));
  return check_finite("rope mscale_all_dim", rope.mscale_all_dim);
}

Result<void> check_llama3(const RopeSpec& rope) {
  PENSTOCK_TRY(check_positive("rope low_freq_factor", rope.low_freq_factor));
  PENSTOCK_TRY(check_positive("rope high_freq_factor", rope.high_freq_factor));
  if (rope.high_freq_factor > rope.low_freq_factor) return {};
  return fail(ErrorKind::kInvalidData,
              "rope high_freq_factor is {}, expected more than low_freq_factor {}",
              rope.high_freq_factor, rope.low_freq_factor);
}

Result<void> check_rope(const RopeSpec& rope, int head_dim) {
  PENSTOCK_TRY(check_range("the count of rotary dimensions", rope.rotary_dims, 2, head_dim));
  if (rope.rotary_dims % 2 != 0) {
    return fail(ErrorKind::kInvalidData,
                "the count of rotary dimensions is {}, expected an even number", rope.rotary_dims);
  }
  if (!std::isfinite(rope.theta) || rope.theta <= 1) {
    return fail(ErrorKind::kInvalidData, "rope theta is {}, expected a number above 1", rope.theta);
  }
  PENSTOCK_TRY(check_positive("rope factor", rope.factor));
  if (rope.attention_factor) {
    PENSTOCK_TRY(check_positive("rope attention_factor", *rope.attention_factor));
  }
  const bool scales_from_original =
      rope.type != RopeType::kDefault && rope.type != RopeType::kLinear;
  if (scales_from_original) {
    PENSTOCK_TRY(check_range("rope original context", rope.original_context, 2, kMaxDim));
  }
  if (rope.type == RopeType::kYarn) PENSTOCK_TRY(check_yarn(rope));
  if (rope.type == RopeType::kLlama3) PENSTOCK_TRY(check_llama3(rope));
  if (rope.type == RopeType::kLongrope) {
    PENSTOCK_TRY(check_per_pair("short_factor", rope.short_factor, rope.rotary_dims));
    PENSTOCK_TRY(check_per_pair("long_factor", rope.long_factor, rope.rotary_dims));
  }
  if (rope.freq_divisors.empty()) return {};
  return check_per_pair("freq_divisors", rope.freq_divisors, rope.rotary_dims);
}

Result<void> check_moe(const MoeSpec& moe) {
  PENSTOCK_TRY(check_range("the count of experts", moe.n_experts, 1, kMaxExperts));
  PENSTOCK_TRY(check_range("experts per token", moe.top_k, 1, moe.n_experts));
  PENSTOCK_TRY(check_range("the width of an expert", moe.expert_dim, 1, kMaxDim));
  PENSTOCK_TRY(check_range("the width of the shared expert", moe.shared_dim, 0, kMaxDim));
  const RouterSpec& router = moe.router;
  PENSTOCK_TRY(check_range("the count of expert groups", router.n_groups, 1, moe.n_experts));
  PENSTOCK_TRY(check_range("groups per token", router.top_groups, 1, router.n_groups));
  if (moe.n_experts % router.n_groups != 0) {
    return fail(ErrorKind::kInvalidData, "{} experts do not divide into {} groups", moe.n_experts,
                router.n_groups);
  }
  const int reachable = moe.n_experts / router.n_groups * router.top_groups;
  PENSTOCK_TRY(check_range("experts per token, from the chosen groups,", moe.top_k, 1, reachable));
  return check_positive("the router's scale", router.scale);
}

Result<void> check_attention(const ModelSpec& spec) {
  PENSTOCK_TRY(check_range("the count of heads", spec.n_heads, 1, kMaxDim));
  PENSTOCK_TRY(check_range("the count of kv heads", spec.n_kv_heads, 1, spec.n_heads));
  if (spec.n_heads % spec.n_kv_heads != 0) {
    return fail(ErrorKind::kInvalidData, "{} heads are no multiple of {} kv heads", spec.n_heads,
                spec.n_kv_heads);
  }
  PENSTOCK_TRY(check_range("the size of a head", spec.head_dim, 1, kMaxDim));
  return check_range("the size of all heads", int64_t{spec.n_heads} * spec.head_dim, 1, kMaxDim);
}

Result<void> check_layers(const ModelSpec& spec) {
  if (spec.layers.empty() || spec.layers.size() > kMaxLayers) {
    return fail(ErrorKind::kInvalidData, "the count of layers is {}, expected 1 to {}",
                spec.layers.size(), kMaxLayers);
  }
  bool has_moe = false;
  bool has_dense = false;
  for (const LayerSpec& layer : spec.layers) {
    PENSTOCK_TRY(
        check_range("a sliding window", layer.window, 0, std::numeric_limits<int64_t>::max()));
    (layer.is_moe ? has_moe : has_dense) = true;
  }
  if (has_dense) PENSTOCK_TRY(check_range("the feed-forward width", spec.ffn_dim, 1, kMaxDim));
  return has_moe ? check_moe(spec.moe) : Result<void>{};
}

}  // namespace

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kLlama:
      return "llama";
    case Family::kQwen2:
      return "qwen2";
    case Family::kQwen3:
      return "qwen3";
    case Family::kMixtral:
      return "mixtral";
    case Family::kQwen3Moe:
      return "qwen3_moe";
    case Family::kGlm4Moe:
      return "glm4_moe";
  }
  return "unknown";
}

Result<void> validate(const ModelSpec& spec) {
  PENSTOCK_TRY(check_range("the vocabulary size", spec.vocab_size, 1, kMaxDim));
  PENSTOCK_TRY(check_range("the hidden size", spec.hidden_dim, 1, kMaxDim));
  PENSTOCK_TRY(check_range("the context length", spec.context_length, 1, kMaxDim));
  PENSTOCK_TRY(check_positive("the norm's epsilon", spec.rms_eps));
  PENSTOCK_TRY(check_attention(spec));
  PENSTOCK_TRY(check_rope(spec.rope, spec.head_dim));
  return check_layers(spec);
}

}  // namespace penstock
