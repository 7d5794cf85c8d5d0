// The rotary embedding of a config.json: rope_parameters (new), or rope_theta and rope_scaling
// (old).
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "checkpoint/hf_config.h"
#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr int64_t kMaxContext = std::numeric_limits<int32_t>::max();

struct RopeName {
  std::string_view name;
  RopeType type;
};
constexpr std::array kRopeNames = std::to_array<RopeName>({
    {"default", RopeType::kDefault},
    {"linear", RopeType::kLinear},
    {"dynamic", RopeType::kDynamic},
    {"yarn", RopeType::kYarn},
    {"llama3", RopeType::kLlama3},
    {"longrope", RopeType::kLongrope},
    {"su", RopeType::kLongrope},  // its first name
});

Result<RopeType> rope_type(const std::string& name) {
  std::vector<std::string_view> known;
  for (const RopeName& entry : kRopeNames) {
    if (entry.name == name) return entry.type;
    known.push_back(entry.name);
  }
  return fail(ErrorKind::kUnsupported, "rope type \"{}\" is not supported; those that are: {}",
              name, fmt::join(known, ", "));
}

// The object with the rope's parameters; null where there is none. Configs with layers of several
// kinds hold one object for each kind, which must say the same: no family here has two ropes.
Result<Json> parameters_of(const HfFields& config) {
  const Json* found = config.find({"rope_parameters", "rope_scaling"});
  if (found == nullptr) return Json();
  if (!found->is_object()) {
    return fail(ErrorKind::kInvalidData, "the rope parameters are {}, expected an object",
                brief(*found));
  }
  const Json* first = nullptr;
  for (const auto& [kind, value] : found->items()) {
    if (!value.is_object()) return *found;
    if (first == nullptr) first = &value;
    if (value != *first) {
      return fail(ErrorKind::kUnsupported,
                  "\"rope_parameters\" differ between kinds of layers, expected one rope for all");
    }
  }
  return first == nullptr ? *found : *first;
}

class RopeReader {
 public:
  RopeReader(const HfFields& config, const HfFields& parameters, const ModelSpec& spec)
      : config_(config), parameters_(parameters), spec_(spec) {}

  Result<RopeSpec> read(double default_theta, double default_partial_rotary_factor) {
    PENSTOCK_ASSIGN(rope_.theta, number({"rope_theta"}, default_theta));
    PENSTOCK_ASSIGN(const double partial,
                    number({"partial_rotary_factor"}, default_partial_rotary_factor));
    if (!(partial > 0 && partial <= 1)) {
      return fail(ErrorKind::kInvalidData,
                  "\"partial_rotary_factor\" is {}, expected more than 0 and at most 1", partial);
    }
    rope_.rotary_dims = static_cast<int>(spec_.head_dim * partial);
    PENSTOCK_ASSIGN(const auto name, parameters_.string({"rope_type", "type"}));
    PENSTOCK_ASSIGN(rope_.type, rope_type(name.value_or("default")));
    PENSTOCK_TRY(read_scaling());
    return std::move(rope_);
  }

 private:
  // Of the parameters, else of the config itself.
  Result<double> number(HfFields::Names names, double otherwise) const {
    PENSTOCK_ASSIGN(const auto own, parameters_.number(names));
    if (own) return *own;
    PENSTOCK_ASSIGN(const auto top, config_.number(names));
    return top.value_or(otherwise);
  }
  Result<double> own_number(std::string_view name, double otherwise) const {
    PENSTOCK_ASSIGN(const auto own, parameters_.number({name}));
    return own.value_or(otherwise);
  }

  Result<void> read_scaling() {
    switch (rope_.type) {
      case RopeType::kDefault:
        return {};
      case RopeType::kLinear:
        return read_factor(/*may_be_absent=*/false);
      case RopeType::kDynamic:
        rope_.original_context = spec_.context_length;
        return read_factor(/*may_be_absent=*/false);
      case RopeType::kYarn:
        return read_yarn();
      case RopeType::kLlama3:
        return read_llama3();
      case RopeType::kLongrope:
        return read_longrope();
    }
    return {};
  }

  // A top-level field wins over the one among the parameters.
  Result<void> read_original_context() {
    const auto read = [](const HfFields& fields) {
      return fields.integer({"original_max_position_embeddings"}, 1, kMaxContext);
    };
    PENSTOCK_ASSIGN(const auto top, read(config_));
    PENSTOCK_ASSIGN(const auto own, read(parameters_));
    rope_.original_context = top ? *top : own.value_or(spec_.context_length);
    return {};
  }

  // Where it may be absent it is how much longer the context became.
  Result<void> read_factor(bool may_be_absent) {
    PENSTOCK_ASSIGN(const auto factor, parameters_.number({"factor"}));
    if (!factor && !may_be_absent) {
      return fail(ErrorKind::kInvalidData, "the rope parameters have no \"factor\"");
    }
    rope_.factor = factor ? *factor
                          : static_cast<double>(spec_.context_length) /
                                static_cast<double>(rope_.original_context);
    return {};
  }

  Result<void> read_yarn() {
    PENSTOCK_TRY(read_original_context());
    PENSTOCK_TRY(read_factor(/*may_be_absent=*/true));
    PENSTOCK_ASSIGN(rope_.beta_fast, own_number("beta_fast", 32.0));
    PENSTOCK_ASSIGN(rope_.beta_slow, own_number("beta_slow", 1.0));
    PENSTOCK_ASSIGN(const auto truncate, parameters_.boolean({"truncate"}));
    rope_.truncate = truncate.value_or(true);
    PENSTOCK_ASSIGN(rope_.attention_factor, parameters_.number({"attention_factor"}));
    PENSTOCK_ASSIGN(rope_.mscale, own_number("mscale", 0.0));
    PENSTOCK_ASSIGN(rope_.mscale_all_dim, own_number("mscale_all_dim", 0.0));
    return {};
  }

  Result<void> read_llama3() {
    PENSTOCK_TRY(read_original_context());
    PENSTOCK_TRY(read_factor(/*may_be_absent=*/false));
    PENSTOCK_ASSIGN(rope_.low_freq_factor, own_number("low_freq_factor", 1.0));
    PENSTOCK_ASSIGN(rope_.high_freq_factor, own_number("high_freq_factor", 4.0));
    return {};
  }

  Result<void> read_longrope() {
    PENSTOCK_TRY(read_original_context());
    PENSTOCK_TRY(read_factor(/*may_be_absent=*/true));
    PENSTOCK_ASSIGN(rope_.attention_factor, parameters_.number({"attention_factor"}));
    PENSTOCK_ASSIGN(rope_.short_factor, parameters_.numbers({"short_factor"}));
    PENSTOCK_ASSIGN(rope_.long_factor, parameters_.numbers({"long_factor"}));
    return {};
  }

  const HfFields& config_;
  const HfFields& parameters_;
  const ModelSpec& spec_;
  RopeSpec rope_;
};

}  // namespace

Result<RopeSpec> hf_rope(const HfFields& config, const ModelSpec& spec, double default_theta,
                         double default_partial_rotary_factor) {
  PENSTOCK_ASSIGN(const Json json, parameters_of(config));
  const HfFields parameters(json);
  return RopeReader(config, parameters, spec).read(default_theta, default_partial_rotary_factor);
}

}  // namespace penstock
