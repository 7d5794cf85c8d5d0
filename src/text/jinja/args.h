// A call's arguments, matched to a function's parameters as Python matches them.
#pragma once

#include <initializer_list>

#include "text/jinja/value.h"

namespace penstock {

class JinjaParams {
 public:
  // Parameters in order, the first `n_required` without a default.
  static Result<JinjaParams> bind(std::string_view callee, const JinjaArgs& args,
                                  std::initializer_list<std::string_view> names,
                                  size_t n_required = 0);

  // Null when it was not given.
  const JinjaValue* get(size_t index) const { return is_given_[index] ? &values_[index] : nullptr; }
  const JinjaValue& at(size_t index) const { return values_[index]; }  // a required one
  JinjaValue value_or(size_t index, const JinjaValue& otherwise) const;
  bool truth_or(size_t index, bool otherwise) const;
  Result<JinjaInt> integer_or(size_t index, JinjaInt otherwise) const;
  Result<std::string_view> text(size_t index) const;  // of a required one
  Result<std::string_view> text_or(size_t index, std::string_view otherwise) const;

 private:
  std::string callee_;
  std::vector<std::string_view> names_;
  JinjaValues values_;
  std::vector<bool> is_given_;
};

// Refuses any argument.
Result<void> takes_nothing(std::string_view callee, const JinjaArgs& args);

}  // namespace penstock
