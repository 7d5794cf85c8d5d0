// The variables that a place in a template sees.
#pragma once

#include <memory>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace penstock {

// One for the template, and one more for each loop iteration, macro call and other body with its
// own variables. Few variables each, so they are searched one by one.
class JinjaScope {
 public:
  JinjaScope(JinjaMeter& meter, std::shared_ptr<JinjaScope> parent)
      : parent_(std::move(parent)), charge_(meter.charge(kBytes)) {}

  // The nearest variable of that name, or null.
  const JinjaValue* find(JinjaName name) const {
    for (const JinjaScope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [key, value] : scope->variables_) {
        if (key == name) return &value;
      }
    }
    return nullptr;
  }

  void set(JinjaName name, JinjaValue value) {
    for (auto& [key, old] : variables_) {
      if (key == name) {
        old = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }

  void clear() { variables_.clear(); }

  bool is_captured = false;  // a macro sees it: it lives until the render ends

 private:
  static constexpr size_t kBytes = 256;  // with a few variables

  std::shared_ptr<JinjaScope> parent_;
  std::vector<std::pair<JinjaName, JinjaValue>> variables_;
  JinjaCharge charge_;
};

using JinjaScopePtr = std::shared_ptr<JinjaScope>;

}  // namespace penstock
