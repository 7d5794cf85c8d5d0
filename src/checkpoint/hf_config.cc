#include "checkpoint/hf_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxCount = 65535;  // of layers, and of experts
constexpr int64_t kHiddenOverHeads = 0;

// What a family's config leaves out is what its class in transformers has. Source: docs/models.md.
struct Defaults {
  Family family;
  std::string_view model_type;
  std::string_view architecture;
  int64_t vocab_size;
  int64_t hidden_dim;
  int64_t ffn_dim;
  int64_t n_layers;
  int64_t n_heads;
  std::optional<int64_t> n_kv_heads;  // nullopt: as many as heads
  int64_t head_dim;                   // kHiddenOverHeads: hidden_dim / n_heads
  int64_t context_length;
  double rms_eps;
  double rope_theta;
  double partial_rotary_factor;
};

constexpr std::array kFamilies = std::to_array<Defaults>({
    {Family::kLlama,
     "llama",
     "LlamaForCausalLM",
     32000,
     4096,
     11008,
     32,
     32,
     {},
     kHiddenOverHeads,
     2048,
     1e-6,
     1e4,
     1.0},
    {Family::kQwen2, "qwen2", "Qwen2ForCausalLM", 151936, 4096, 22016, 32, 32, 32, kHiddenOverHeads,
     32768, 1e-6, 1e4, 1.0},
    {Family::kQwen3, "qwen3", "Qwen3ForCausalLM", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6,
     1e4, 1.0},
    {Family::kMixtral, "mixtral", "MixtralForCausalLM", 32000, 4096, 14336, 32, 32, 8,
     kHiddenOverHeads, 131072, 1e-5, 1e6, 1.0},
    {Family::kQwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM", 151936, 2048, 6144, 24, 32, 4,
     kHiddenOverHeads, 32768, 1e-6, 1e4, 1.0},
    {Family::kGlm4Moe, "glm4_moe", "Glm4MoeForCausalLM", 151552, 4096, 10944, 46, 96, 8,
     kHiddenOverHeads, 131072, 1e-5, 1e4, 0.5},
});

std::unexpected<Error> unsupported(std::string_view what, const std::string& name,
                                   std::string_view Defaults::* names) {
  std::vector<std::string_view> known;
  known.reserve(std::size(kFamilies));
  for (const Defaults& family : kFamilies) known.push_back(family.*names);
  return fail(ErrorKind::kUnsupported, "{} \"{}\" is not supported; those that are: {}", what, name,
              fmt::join(known, ", "));
}

const Defaults* find_family(std::string_view Defaults::* names, std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, names);
  return found == kFamilies.end() ? nullptr : &*found;
}

// The architecture of a model for text alone. That of a wrapper around it (with text_config) is the
// wrapper's own affair.
Result<std::optional<std::string>> architecture_of(const Json& config) {
  PENSTOCK_ASSIGN(const auto names, HfFields(config).strings({"architectures"}));
  if (!names || names->empty()) return std::nullopt;
  return names->front();
}

Result<const Defaults*> family_of(const HfFields& fields, const Json& text_config) {
  PENSTOCK_ASSIGN(const auto architecture, architecture_of(text_config));
  PENSTOCK_ASSIGN(const auto model_type, fields.string({"model_type"}));
  const Defaults* by_architecture = nullptr;
  if (architecture) {
    by_architecture = find_family(&Defaults::architecture, *architecture);
    if (by_architecture == nullptr) {
      return unsupported("architecture", *architecture, &Defaults::architecture);
    }
  }
  if (!model_type) {
    if (by_architecture != nullptr) return by_architecture;
    return fail(ErrorKind::kInvalidData, "there is neither \"model_type\" nor \"architectures\"");
  }
  const Defaults* by_type = find_family(&Defaults::model_type, *model_type);
  if (by_type == nullptr) return unsupported("model_type", *model_type, &Defaults::model_type);
  if (by_architecture != nullptr && by_type != by_architecture) {
    return fail(ErrorKind::kInvalidData, "architecture \"{}\" contradicts model_type \"{}\"",
                *architecture, *model_type);
  }
  return by_type;
}

class SpecReader {
 public:
  SpecReader(const HfFields& fields, const Defaults& defaults)
      : fields_(fields), defaults_(defaults) {
    spec_.family = defaults.family;
  }

  Result<ModelSpec> read() {
    PENSTOCK_TRY(check_activation());
    PENSTOCK_TRY(read_dims());
    PENSTOCK_TRY(read_heads());
    PENSTOCK_TRY(read_options());
    PENSTOCK_TRY(read_experts());
    PENSTOCK_TRY(read_layers());
    PENSTOCK_ASSIGN(spec_.rope,
                    hf_rope(fields_, spec_, defaults_.rope_theta, defaults_.partial_rotary_factor));
    PENSTOCK_TRY(validate(spec_));
    return std::move(spec_);
  }

 private:
  Result<int64_t> integer(HfFields::Names names, int64_t low, int64_t high,
                          int64_t otherwise) const {
    PENSTOCK_ASSIGN(const auto value, fields_.integer(names, low, high));
    return value.value_or(otherwise);
  }
  Result<int> small_integer(HfFields::Names names, int64_t low, int64_t high,
                            int64_t otherwise) const {
    PENSTOCK_ASSIGN(const int64_t value, integer(names, low, high, otherwise));
    return static_cast<int>(value);
  }
  Result<double> number(HfFields::Names names, double otherwise) const {
    PENSTOCK_ASSIGN(const auto value, fields_.number(names));
    return value.value_or(otherwise);
  }
  Result<bool> flag(HfFields::Names names, bool otherwise) const {
    PENSTOCK_ASSIGN(const auto value, fields_.boolean(names));
    return value.value_or(otherwise);
  }
  bool is(Family family) const { return spec_.family == family; }

  Result<void> check_activation() const {
    PENSTOCK_ASSIGN(const auto name, fields_.string({"hidden_act", "hidden_activation"}));
    if (!name || *name == "silu" || *name == "swish") return {};
    return fail(ErrorKind::kUnsupported, "activation \"{}\" is not supported, expected silu",
                *name);
  }

  Result<void> read_dims() {
    PENSTOCK_ASSIGN(spec_.vocab_size, integer({"vocab_size"}, 1, kMaxInt, defaults_.vocab_size));
    PENSTOCK_ASSIGN(spec_.hidden_dim, integer({"hidden_size"}, 1, kMaxInt, defaults_.hidden_dim));
    PENSTOCK_ASSIGN(spec_.ffn_dim, integer({"intermediate_size"}, 1, kMaxInt, defaults_.ffn_dim));
    PENSTOCK_ASSIGN(spec_.context_length,
                    integer({"max_position_embeddings"}, 1, kMaxInt, defaults_.context_length));
    PENSTOCK_ASSIGN(spec_.rms_eps, number({"rms_norm_eps"}, defaults_.rms_eps));
    return {};
  }

  Result<void> read_heads() {
    PENSTOCK_ASSIGN(spec_.n_heads,
                    small_integer({"num_attention_heads"}, 1, kMaxInt, defaults_.n_heads));
    // Null means as many as heads; only a config that leaves it out gets the family's number.
    const int64_t absent = fields_.is_null("num_key_value_heads")
                               ? spec_.n_heads
                               : defaults_.n_kv_heads.value_or(spec_.n_heads);
    PENSTOCK_ASSIGN(spec_.n_kv_heads, small_integer({"num_key_value_heads"}, 1, kMaxInt, absent));
    const int64_t head_dim = defaults_.head_dim == kHiddenOverHeads
                                 ? spec_.hidden_dim / spec_.n_heads
                                 : defaults_.head_dim;
    PENSTOCK_ASSIGN(spec_.head_dim, small_integer({"head_dim"}, 1, kMaxInt, head_dim));
    return {};
  }

  Result<void> read_options() {
    PENSTOCK_ASSIGN(spec_.tied_head, flag({"tie_word_embeddings"}, false));
    PENSTOCK_ASSIGN(const bool attention_bias, flag({"attention_bias"}, false));
    PENSTOCK_ASSIGN(const bool mlp_bias, flag({"mlp_bias"}, false));
    PENSTOCK_ASSIGN(const bool use_qk_norm, flag({"use_qk_norm"}, false));
    const bool has_flag = !is(Family::kQwen2) && !is(Family::kMixtral);
    spec_.qkv_bias = is(Family::kQwen2) || (has_flag && attention_bias);
    spec_.o_bias = has_flag && !is(Family::kGlm4Moe) && attention_bias;
    spec_.mlp_bias = is(Family::kLlama) && mlp_bias;
    spec_.qk_norm =
        is(Family::kQwen3) || is(Family::kQwen3Moe) || (is(Family::kGlm4Moe) && use_qk_norm);
    return {};
  }

  Result<void> read_experts() {
    if (is(Family::kMixtral)) return read_moe({.n_experts = 8, .top_k = 2});
    if (is(Family::kQwen3Moe)) {
      PENSTOCK_TRY(read_moe({.n_experts = 128, .top_k = 8, .expert_dim = 768}));
      PENSTOCK_ASSIGN(spec_.moe.router.renormalize, flag({"norm_topk_prob"}, false));
    }
    if (is(Family::kGlm4Moe)) {
      PENSTOCK_TRY(read_moe({.n_experts = 128, .top_k = 8, .expert_dim = 1408}));
      return read_glm_router();
    }
    return {};
  }

  Result<void> read_moe(MoeSpec defaults) {
    MoeSpec& moe = spec_.moe;
    PENSTOCK_ASSIGN(moe.n_experts,
                    small_integer({"num_experts", "num_local_experts", "n_routed_experts"}, 0,
                                  kMaxCount, defaults.n_experts));
    PENSTOCK_ASSIGN(moe.top_k, small_integer({"num_experts_per_tok", "experts_per_token",
                                              "num_experts_per_token"},
                                             1, kMaxCount, defaults.top_k));
    if (is(Family::kMixtral)) {
      moe.expert_dim = static_cast<int>(spec_.ffn_dim);
      return {};
    }
    PENSTOCK_ASSIGN(moe.expert_dim,
                    small_integer({"moe_intermediate_size"}, 1, kMaxInt, defaults.expert_dim));
    return {};
  }

  Result<void> read_glm_router() {
    MoeSpec& moe = spec_.moe;
    PENSTOCK_ASSIGN(const int64_t n_shared, integer({"n_shared_experts"}, 0, kMaxCount, 1));
    const int64_t shared_dim = n_shared * moe.expert_dim;
    if (shared_dim > kMaxInt) {
      return fail(ErrorKind::kInvalidData, "{} shared experts of width {} are too wide", n_shared,
                  moe.expert_dim);
    }
    moe.shared_dim = static_cast<int>(shared_dim);
    RouterSpec& router = moe.router;
    router.score = RouterScore::kSigmoid;
    router.has_bias = true;
    PENSTOCK_ASSIGN(router.renormalize, flag({"norm_topk_prob"}, true));
    PENSTOCK_ASSIGN(router.n_groups, small_integer({"n_group"}, 1, kMaxCount, 1));
    PENSTOCK_ASSIGN(router.top_groups, small_integer({"topk_group"}, 1, kMaxCount, 1));
    PENSTOCK_ASSIGN(router.scale, number({"routed_scaling_factor"}, 1.0));
    return {};
  }

  Result<void> read_layers() {
    PENSTOCK_ASSIGN(const int64_t n_layers,
                    integer({"num_hidden_layers"}, 1, kMaxCount, defaults_.n_layers));
    spec_.layers.resize(static_cast<size_t>(n_layers));
    PENSTOCK_TRY(mark_moe_layers());
    return set_windows();
  }

  Result<void> mark_moe_layers() {
    if (spec_.moe.n_experts == 0) return {};
    PENSTOCK_ASSIGN(const int64_t n_dense, integer({"first_k_dense_replace"}, 0, kMaxCount, 1));
    PENSTOCK_ASSIGN(const int64_t step, integer({"decoder_sparse_step"}, 1, kMaxCount, 1));
    PENSTOCK_ASSIGN(const auto dense, fields_.integers({"mlp_only_layers"}));
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      bool is_moe = true;
      if (is(Family::kGlm4Moe)) is_moe = index >= n_dense;
      if (is(Family::kQwen3Moe)) {
        is_moe = (index + 1) % step == 0 && std::ranges::find(dense, index) == dense.end();
      }
      spec_.layers[i].is_moe = is_moe;
    }
    return {};
  }

  // The window of the layers that have one; 0: none has.
  Result<int64_t> window() const {
    if (is(Family::kMixtral)) return integer({"sliding_window"}, 1, kMaxInt, 0);
    const bool can_have = is(Family::kQwen2) || is(Family::kQwen3) || is(Family::kQwen3Moe);
    PENSTOCK_ASSIGN(const bool use, flag({"use_sliding_window"}, false));
    if (!can_have || !use) return 0;
    return integer({"sliding_window"}, 1, kMaxInt, 4096);
  }

  Result<void> set_windows() {
    PENSTOCK_ASSIGN(const int64_t size, window());
    const bool by_layer = is(Family::kQwen2) || is(Family::kQwen3);
    PENSTOCK_ASSIGN(const auto types, fields_.strings({"layer_types"}));
    if (by_layer && types) return set_windows_by_type(*types, size);
    PENSTOCK_ASSIGN(const int64_t first, integer({"max_window_layers"}, 0, kMaxInt, 28));
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      if (!by_layer || static_cast<int64_t>(i) >= first) spec_.layers[i].window = size;
    }
    return {};
  }

  Result<void> set_windows_by_type(const std::vector<std::string>& types, int64_t size) {
    if (types.size() != spec_.layers.size()) {
      return fail(ErrorKind::kInvalidData, "\"layer_types\" has {} entries for {} layers",
                  types.size(), spec_.layers.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "full_attention") continue;
      if (types[i] != "sliding_attention") {
        return fail(ErrorKind::kUnsupported,
                    "layer type \"{}\" is not supported; those that are: full_attention, "
                    "sliding_attention",
                    types[i]);
      }
      if (size == 0) {
        return fail(ErrorKind::kInvalidData,
                    "\"layer_types\" makes layer {} a sliding one, but no window is in use", i);
      }
      spec_.layers[i].window = size;
    }
    return {};
  }

  const HfFields& fields_;
  const Defaults& defaults_;
  ModelSpec spec_;
};

}  // namespace

Result<HfConfig> parse_hf_config(const Json& json) {
  if (!json.is_object()) {
    return fail(ErrorKind::kInvalidData, "the whole is {}, expected an object", brief(json));
  }
  const auto nested = json.find("text_config");
  const bool is_wrapper = nested != json.end() && nested->is_object();
  const Json& text = is_wrapper ? *nested : json;
  const HfFields fields(text, is_wrapper ? &json : nullptr);

  HfConfig config;
  PENSTOCK_ASSIGN(const Defaults* const defaults, family_of(fields, text));
  PENSTOCK_ASSIGN(config.spec, SpecReader(fields, *defaults).read());
  PENSTOCK_ASSIGN(config.quantization, hf_quantization(fields));
  PENSTOCK_ASSIGN(config.eos_ids, fields.integers({"eos_token_id"}));
  PENSTOCK_ASSIGN(config.bos_ids, fields.integers({"bos_token_id"}));
  return config;
}

}  // namespace penstock
