#include "text/jinja/args.h"

#include <algorithm>

namespace penstock {

Result<JinjaParams> JinjaParams::bind(std::string_view callee, const JinjaArgs& args,
                                      std::initializer_list<std::string_view> names,
                                      size_t n_required) {
  JinjaParams params;
  params.callee_ = callee;
  params.names_ = names;
  if (args.positional.size() > names.size()) {
    return jinja_error("{}() takes at most {} arguments ({} given)", callee, names.size(),
                       args.positional.size());
  }
  params.values_ = args.positional;
  params.values_.resize(names.size());
  params.is_given_.assign(args.positional.size(), true);
  params.is_given_.resize(names.size());
  for (const auto& [name, value] : args.named) {
    const auto found = std::ranges::find(params.names_, name);
    if (found == params.names_.end()) {
      return jinja_error("{}() got an unexpected keyword argument '{}'", callee, name);
    }
    const auto index = static_cast<size_t>(found - params.names_.begin());
    if (params.is_given_[index]) {
      return jinja_error("{}() got multiple values for argument '{}'", callee, name);
    }
    params.values_[index] = value;
    params.is_given_[index] = true;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!params.is_given_[i]) {
      return jinja_error("{}() is missing its argument '{}'", callee, params.names_[i]);
    }
  }
  return params;
}

JinjaValue JinjaParams::value_or(size_t index, const JinjaValue& otherwise) const {
  return is_given_[index] ? values_[index] : otherwise;
}

bool JinjaParams::truth_or(size_t index, bool otherwise) const {
  return is_given_[index] ? values_[index].truth() : otherwise;
}

Result<JinjaInt> JinjaParams::integer_or(size_t index, JinjaInt otherwise) const {
  if (!is_given_[index]) return otherwise;
  if (const auto integer = values_[index].integral()) return *integer;
  return jinja_error("{}(): '{}' must be an integer, not '{}'", callee_, names_[index],
                     values_[index].type_name());
}

Result<std::string_view> JinjaParams::text(size_t index) const {
  if (const auto text = text_of(values_[index])) return *text;
  return jinja_error("{}(): '{}' must be str, not {}", callee_, names_[index],
                     values_[index].type_name());
}

Result<std::string_view> JinjaParams::text_or(size_t index, std::string_view otherwise) const {
  if (!is_given_[index]) return otherwise;
  return text(index);
}

Result<void> takes_nothing(std::string_view callee, const JinjaArgs& args) {
  if (args.positional.empty() && args.named.empty()) return {};
  return jinja_error("{}() takes no arguments", callee);
}

}  // namespace penstock
