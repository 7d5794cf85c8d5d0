// Renders a parsed template once: evaluates its expressions and runs its statements.
#pragma once

#include <chrono>
#include <string>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/objects.h"
#include "text/jinja/scope.h"

namespace penstock {

enum class JinjaFlow { kNext, kBreak, kContinue };

// One thread, one render.
class JinjaRender {
 public:
  JinjaRender(const JinjaTemplate& code, const TemplateLimits& limits,
              std::chrono::local_seconds now)
      : meter_(limits), code_(code), now_(now) {}
  JinjaRender(const JinjaRender&) = delete;
  JinjaRender& operator=(const JinjaRender&) = delete;
  ~JinjaRender();

  Result<std::string> run(const OrderedJson& inputs);
  int line() const { return line_; }  // of what was last evaluated

  // For functions, filters and methods.
  JinjaMeter& meter() { return meter_; }
  std::chrono::local_seconds now() const { return now_; }
  Result<JinjaValue> call(const JinjaValue& callee, const JinjaArgs& args);
  Result<JinjaValue> filter(std::string_view name, const JinjaValue& value, const JinjaArgs& args);
  Result<bool> test(std::string_view name, const JinjaValue& value, const JinjaArgs& args);
  JinjaValue own(std::shared_ptr<JinjaNamespace> made);

  // For macros and loops.
  JinjaScopePtr new_scope(JinjaScopePtr parent);
  Result<JinjaValue> evaluate_in(const JinjaScopePtr& scope, const JinjaExpr& expr);
  // What `body` prints.
  Result<JinjaValue> captured(const JinjaScopePtr& scope, const JinjaBody& body);
  // What a recursive loop prints over `iterable`.
  Result<JinjaValue> recurse(const ForStmt& loop, const JinjaScopePtr& outer,
                             const JinjaValue& iterable, size_t depth0);

 private:
  Result<JinjaValue> evaluate(const JinjaExpr& expr);
  Result<JinjaValue> evaluate_node(const LiteralExpr& node);
  Result<JinjaValue> evaluate_node(const NameExpr& node);
  Result<JinjaValue> evaluate_node(const SequenceExpr& node);
  Result<JinjaValue> evaluate_node(const DictExpr& node);
  Result<JinjaValue> evaluate_node(const UnaryExpr& node);
  Result<JinjaValue> evaluate_node(const BinaryExpr& node);
  Result<JinjaValue> evaluate_node(const LogicExpr& node);
  Result<JinjaValue> evaluate_node(const ConcatExpr& node);
  Result<JinjaValue> evaluate_node(const CompareExpr& node);
  Result<JinjaValue> evaluate_node(const ConditionExpr& node);
  Result<JinjaValue> evaluate_node(const AttributeExpr& node);
  Result<JinjaValue> evaluate_node(const ItemExpr& node);
  Result<JinjaValue> evaluate_node(const SliceExpr& node);
  Result<JinjaValue> evaluate_node(const CallExpr& node);
  Result<JinjaValue> evaluate_node(const FilterExpr& node);
  Result<JinjaValue> evaluate_node(const TestExpr& node);
  Result<JinjaValue> evaluate_or_none(const JinjaExprPtr& expr);
  Result<bool> compare(JinjaComparison comparison, const JinjaValue& a, const JinjaValue& b);
  Result<JinjaArgs> evaluate_args(const JinjaArgExprs& exprs);
  Result<void> add_star_args(const JinjaExpr& expr, JinjaArgs& args);
  Result<void> add_star_star_args(const JinjaExpr& expr, JinjaArgs& args);

  Result<JinjaFlow> run_body(const JinjaBody& body);
  Result<JinjaFlow> run_in(const JinjaScopePtr& scope, const JinjaBody& body);
  Result<JinjaFlow> run_statement(const JinjaStmt& statement);
  Result<JinjaFlow> run_node(const TextStmt& node);
  Result<JinjaFlow> run_node(const PrintStmt& node);
  Result<JinjaFlow> run_node(const SetStmt& node);
  Result<JinjaFlow> run_node(const SetBlockStmt& node);
  Result<JinjaFlow> run_node(const IfStmt& node);
  Result<JinjaFlow> run_node(const ForStmt& node);
  Result<JinjaFlow> run_node(const MacroStmt& node);
  Result<JinjaFlow> run_node(const CallBlockStmt& node);
  Result<JinjaFlow> run_node(const FilterBlockStmt& node);
  Result<JinjaFlow> run_node(const WithStmt& node);
  Result<JinjaFlow> run_node(const ScopeStmt& node);
  Result<JinjaFlow> run_node(const BlockStmt& node);
  Result<JinjaFlow> run_node(const BreakStmt& node);
  Result<JinjaFlow> run_node(const ContinueStmt& node);

  Result<JinjaFlow> run_loop(const ForStmt& node, const JinjaScopePtr& outer,
                             const JinjaValue& iterable, size_t depth0);
  Result<JinjaFlow> run_iterations(const ForStmt& node, const JinjaScopePtr& outer,
                                   const std::shared_ptr<JinjaLoop>& loop);
  JinjaValue filtered(const ForStmt& node, const JinjaScopePtr& outer, JinjaCursor cursor);
  Result<void> assign(JinjaScope& scope, const JinjaTarget& target, const JinjaValue& value);
  Result<void> assign_parts(JinjaScope& scope, const JinjaTarget& target, const JinjaValue& value);
  JinjaValue new_macro(const JinjaMacroCode& code);
  Result<JinjaValue> apply_filters(const JinjaExprPtr& filter, JinjaValue text);
  Result<std::string> capture_text(const JinjaScopePtr& scope, const JinjaBody& body,
                                   JinjaFlow& flow);
  Result<void> print(std::string_view text);
  Result<void> print_value(const JinjaValue& value);
  Result<void> define_inputs(const OrderedJson& inputs);

  JinjaMeter meter_;  // first: every value below gives back to it
  const JinjaTemplate& code_;
  std::chrono::local_seconds now_;
  JinjaScopePtr root_;
  JinjaScopePtr scope_;
  std::vector<JinjaScopePtr> captured_scopes_;
  std::vector<std::shared_ptr<JinjaNamespace>> namespaces_;
  std::string* out_ = nullptr;
  size_t unclaimed_bytes_ = 0;  // printed into buffers that are still open
  size_t levels_ = 0;           // evaluations and statements inside each other
  size_t calls_ = 0;            // macros, callers and recursive loops inside each other
  int line_ = 1;
};

}  // namespace penstock
