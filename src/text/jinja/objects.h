// The objects with state or behaviour that a render makes: namespaces, loops, macros, functions.
#pragma once

#include <memory>

#include "text/jinja/ast.h"
#include "text/jinja/iterate.h"
#include "text/jinja/scope.h"
#include "text/jinja/value.h"

namespace penstock {

using JinjaNative = Result<JinjaValue> (*)(JinjaRender& render, const JinjaArgs& args);

// The global function `name`, or nothing.
std::optional<JinjaValue> find_global(std::string_view name);

// A method together with the value it was taken from.
class JinjaBoundMethod : public JinjaObject {
 public:
  using Method = Result<JinjaValue> (*)(JinjaRender&, const JinjaValue&, const JinjaArgs&);

  JinjaBoundMethod(Method method, JinjaValue self) : method_(method), self_(std::move(self)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args) override {
    return method_(render, self_, args);
  }
  size_t depth() const override { return self_.depth() + 1; }

 private:
  Method method_;
  JinjaValue self_;
};

// The one thing a template can change. The render owns all of them: see JinjaRender::own.
class JinjaNamespace : public JinjaObject {
 public:
  JinjaNamespace(JinjaDict attributes, JinjaCharge charge)
      : attributes_(std::move(attributes)), charge_(std::move(charge)) {}
  std::string_view type_name() const override { return "Namespace"; }
  Result<std::string> repr(JinjaMeter& meter) const override;
  Result<std::optional<JinjaValue>> attribute(JinjaRender& render, std::string_view name) override;
  Result<void> set(std::string_view name, JinjaValue value);
  // The error of storing under such a name.
  static std::unexpected<Error> underscored(std::string_view name);
  void clear() { attributes_ = JinjaDict(); }
  size_t depth() const override { return 0; }  // however deep: nothing that holds it destroys it

 private:
  JinjaDict attributes_;
  JinjaCharge charge_;
};

class JinjaMacro : public JinjaObject {
 public:
  // `scope` is where it was defined; the render keeps it.
  JinjaMacro(const JinjaMacroCode& code, JinjaScopePtr scope)
      : code_(code), scope_(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  Result<std::string> repr(JinjaMeter& meter) const override;
  bool is_callable() const override { return true; }
  Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args) override;
  Result<std::optional<JinjaValue>> attribute(JinjaRender& render, std::string_view name) override;

 private:
  // Matches arguments to parameters, in the scope of the call.
  Result<void> bind(JinjaRender& render, const JinjaArgs& args, const JinjaScopePtr& scope) const;
  Result<void> bind_rest(JinjaRender& render, const JinjaArgs& args, std::vector<bool> used,
                         JinjaScope& scope) const;

  const JinjaMacroCode& code_;
  JinjaScopePtr scope_;
};

// The variable `loop`. Works while its loop runs; after that it is an empty shell.
class JinjaLoop : public JinjaObject, public std::enable_shared_from_this<JinjaLoop> {
 public:
  JinjaLoop(const ForStmt& code, JinjaScopePtr outer, JinjaCursor cursor,
            std::optional<size_t> length, size_t depth0, size_t nesting)
      : code_(code),
        outer_(std::move(outer)),
        cursor_(std::move(cursor)),
        length_(length),
        depth0_(depth0),
        nesting_(nesting) {}

  // The next item, which becomes the current one; nothing at the end.
  Result<std::optional<JinjaValue>> advance();
  // Lets go of everything: called when the loop ends.
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  Result<std::string> repr(JinjaMeter& meter) const override;
  bool is_callable() const override { return true; }
  Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args) override;
  Result<std::optional<JinjaValue>> attribute(JinjaRender& render, std::string_view name) override;
  size_t depth() const override { return nesting_; }

 private:
  friend Result<JinjaValue> loop_cycle(JinjaRender&, const JinjaValue&, const JinjaArgs&);
  friend Result<JinjaValue> loop_changed(JinjaRender&, const JinjaValue&, const JinjaArgs&);
  Result<size_t> length();
  Result<std::optional<JinjaValue>> peek();

  const ForStmt& code_;
  JinjaScopePtr outer_;
  std::optional<JinjaCursor> cursor_;
  std::optional<size_t> length_;
  size_t depth0_;
  size_t nesting_;
  size_t index_ = 0;   // of the current item, from 1
  JinjaValues ahead_;  // read already, in reverse
  std::optional<JinjaValue> previous_, current_;
  std::optional<JinjaValues> changed_;  // what `changed` was last called with
};

}  // namespace penstock
