// ModelSpec as JSON and back: each struct's fields are listed once, for both directions.
#include <array>
#include <concepts>
#include <string>
#include <utility>

#include "checkpoint/json_text.h"
#include "checkpoint/model_spec.h"

namespace penstock {
namespace {

template <class Spec, class Visit>
  requires std::same_as<std::remove_const_t<Spec>, RopeSpec>
void visit_fields(Spec& rope, Visit& visit) {
  visit("type", rope.type);
  visit("pairs", rope.pairs);
  visit("rotary_dims", rope.rotary_dims);
  visit("theta", rope.theta);
  visit("factor", rope.factor);
  visit("original_context", rope.original_context);
  visit("low_freq_factor", rope.low_freq_factor);
  visit("high_freq_factor", rope.high_freq_factor);
  visit("beta_fast", rope.beta_fast);
  visit("beta_slow", rope.beta_slow);
  visit("truncate", rope.truncate);
  visit("attention_factor", rope.attention_factor);
  visit("mscale", rope.mscale);
  visit("mscale_all_dim", rope.mscale_all_dim);
  visit("short_factor", rope.short_factor);
  visit("long_factor", rope.long_factor);
  visit("freq_divisors", rope.freq_divisors);
}

template <class Spec, class Visit>
  requires std::same_as<std::remove_const_t<Spec>, RouterSpec>
void visit_fields(Spec& router, Visit& visit) {
  visit("score", router.score);
  visit("has_bias", router.has_bias);
  visit("renormalize", router.renormalize);
  visit("n_groups", router.n_groups);
  visit("top_groups", router.top_groups);
  visit("scale", router.scale);
}

template <class Spec, class Visit>
  requires std::same_as<std::remove_const_t<Spec>, MoeSpec>
void visit_fields(Spec& moe, Visit& visit) {
  visit("n_experts", moe.n_experts);
  visit("top_k", moe.top_k);
  visit("expert_dim", moe.expert_dim);
  visit("shared_dim", moe.shared_dim);
  visit("router", moe.router);
}

template <class Spec, class Visit>
  requires std::same_as<std::remove_const_t<Spec>, LayerSpec>
void visit_fields(Spec& layer, Visit& visit) {
  visit("is_moe", layer.is_moe);
  visit("window", layer.window);
}

template <class Spec, class Visit>
  requires std::same_as<std::remove_const_t<Spec>, ModelSpec>
void visit_fields(Spec& spec, Visit& visit) {
  visit("family", spec.family);
  visit("vocab_size", spec.vocab_size);
  visit("hidden_dim", spec.hidden_dim);
  visit("ffn_dim", spec.ffn_dim);
  visit("n_heads", spec.n_heads);
  visit("n_kv_heads", spec.n_kv_heads);
  visit("head_dim", spec.head_dim);
  visit("context_length", spec.context_length);
  visit("rms_eps", spec.rms_eps);
  visit("tied_head", spec.tied_head);
  visit("qkv_bias", spec.qkv_bias);
  visit("o_bias", spec.o_bias);
  visit("mlp_bias", spec.mlp_bias);
  visit("qk_norm", spec.qk_norm);
  visit("rope", spec.rope);
  visit("moe", spec.moe);
  visit("layers", spec.layers);
}

template <class T>
concept Struct =
    std::same_as<T, RopeSpec> || std::same_as<T, RouterSpec> || std::same_as<T, MoeSpec> ||
    std::same_as<T, LayerSpec> || std::same_as<T, ModelSpec>;

// The words of each enum, in the order of its values.
const std::array<std::string_view, 6> kFamilies = {
    to_string(Family::kLlama),   to_string(Family::kQwen2),    to_string(Family::kQwen3),
    to_string(Family::kMixtral), to_string(Family::kQwen3Moe), to_string(Family::kGlm4Moe)};
constexpr std::array<std::string_view, 6> kRopeTypes = {"default", "linear", "dynamic",
                                                        "yarn",    "llama3", "longrope"};
constexpr std::array<std::string_view, 2> kRopePairs = {"halves", "interleaved"};
constexpr std::array<std::string_view, 2> kRouterScores = {"softmax", "sigmoid"};
const auto& words_of(Family) { return kFamilies; }
constexpr const auto& words_of(RopeType) { return kRopeTypes; }
constexpr const auto& words_of(RopePairs) { return kRopePairs; }
constexpr const auto& words_of(RouterScore) { return kRouterScores; }

struct Writer {
  Json json = Json::object();

  template <class T>
  void operator()(const char* name, const T& value) {
    json[name] = encode(value);
  }

  template <class T>
  static Json encode(const T& value) {
    if constexpr (Struct<T>) {
      Writer writer;
      visit_fields(value, writer);
      return std::move(writer.json);
    } else if constexpr (std::is_enum_v<T>) {
      return words_of(value)[static_cast<size_t>(value)];
    } else {
      return value;
    }
  }
  static Json encode(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
  template <class T>
  static Json encode(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(encode(value));
    return array;
  }
};

// Fills a struct from an object that must have exactly the struct's fields. Keeps the first error.
class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  template <class T>
  void operator()(const char* name, T& field) {
    if (!done_) return;
    ++n_fields_;
    const std::string path = path_.empty() ? name : path_ + "." + name;
    if (!json_.is_object()) {
      done_ = fail(ErrorKind::kInvalidData, "model spec: {} is {}, expected an object",
                   path_.empty() ? "the whole" : path_, json_.type_name());
    } else if (const auto found = json_.find(name); found == json_.end()) {
      done_ = fail(ErrorKind::kInvalidData, "model spec: {} is missing", path);
    } else {
      done_ = decode(*found, path, field);
    }
  }

  // After all fields: an object with more entries than fields holds something nobody wrote.
  Result<void> finish() const {
    if (!done_ || json_.size() == n_fields_) return done_;
    return fail(ErrorKind::kInvalidData, "model spec: {} has {} entries, expected {}",
                path_.empty() ? "the whole" : path_, json_.size(), n_fields_);
  }

 private:
  template <class T>
  static Result<void> decode(const Json& json, const std::string& path, T& out) {
    if constexpr (Struct<T>) {
      Reader reader(json, path);
      visit_fields(out, reader);
      return reader.finish();
    } else if constexpr (std::is_enum_v<T>) {
      return decode_word(json, path, out);
    } else if constexpr (std::same_as<T, bool>) {
      if (!json.is_boolean()) return wrong_type(json, path, "true or false");
      out = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      const bool fits = json.is_number_unsigned()
                            ? std::in_range<T>(json.get<uint64_t>())
                            : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
      if (!fits) return wrong_type(json, path, "a whole number in range");
      out = json.get<T>();
    } else {
      if (!json.is_number()) return wrong_type(json, path, "a number");
      out = json.get<T>();
    }
    return {};
  }

  static Result<void> decode(const Json& json, const std::string& path,
                             std::optional<double>& out) {
    if (json.is_null()) {
      out.reset();
      return {};
    }
    return decode(json, path, out.emplace());
  }

  template <class T>
  static Result<void> decode(const Json& json, const std::string& path, std::vector<T>& out) {
    if (!json.is_array()) return wrong_type(json, path, "a list");
    out.clear();
    out.reserve(json.size());
    for (const Json& element : json) {
      PENSTOCK_TRY(decode(element, fmt::format("{}[{}]", path, out.size()), out.emplace_back()));
    }
    return {};
  }

  template <class Enum>
  static Result<void> decode_word(const Json& json, const std::string& path, Enum& out) {
    const auto& words = words_of(Enum{});
    for (size_t i = 0; i < words.size() && json.is_string(); ++i) {
      if (json.get_ref<const std::string&>() != words[i]) continue;
      out = static_cast<Enum>(i);
      return {};
    }
    return fail(ErrorKind::kUnsupported, "model spec: {} is {}, expected one of: {}", path,
                brief(json), fmt::join(words, ", "));
  }

  static Result<void> wrong_type(const Json& json, const std::string& path,
                                 std::string_view expected) {
    return fail(ErrorKind::kInvalidData, "model spec: {} is {}, expected {}", path, brief(json),
                expected);
  }

  const Json& json_;
  std::string path_;
  size_t n_fields_ = 0;
  Result<void> done_ = {};
};

}  // namespace

Json to_json(const ModelSpec& spec) { return Writer::encode(spec); }

Result<ModelSpec> spec_from_json(const Json& json) {
  ModelSpec spec;
  Reader reader(json, "");
  visit_fields(spec, reader);
  PENSTOCK_TRY(reader.finish());
  PENSTOCK_TRY(validate(spec));
  return spec;
}

}  // namespace penstock
