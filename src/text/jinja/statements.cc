// The statements of a render: output, assignment, control flow, macros.
#include <variant>

#include "text/jinja/evaluator.h"
#include "text/jinja/iterate.h"
#include "text/jinja/level.h"
#include "text/jinja/printing.h"

namespace penstock {

JinjaScopePtr JinjaRender::new_scope(JinjaScopePtr parent) {
  return std::make_shared<JinjaScope>(meter_, std::move(parent));
}

JinjaValue JinjaRender::own(std::shared_ptr<JinjaNamespace> made) {
  namespaces_.push_back(made);
  return JinjaValue(JinjaValue::Object(std::move(made)));
}

Result<void> JinjaRender::print(std::string_view text) {
  PENSTOCK_TRY(meter_.step_bytes(text.size()));
  unclaimed_bytes_ += text.size();
  if (unclaimed_bytes_ > meter_.limits().max_output_bytes) {
    return fail(ErrorKind::kExhausted, "the template prints more than {} bytes",
                meter_.limits().max_output_bytes);
  }
  *out_ += text;
  return {};
}

Result<void> JinjaRender::print_value(const JinjaValue& value) {
  if (const auto text = text_of(value)) return print(*text);
  PENSTOCK_ASSIGN(const std::string text, jinja_str(meter_, value));
  return print(text);
}

// What `body` prints, kept out of the output.
Result<std::string> JinjaRender::capture_text(const JinjaScopePtr& scope, const JinjaBody& body,
                                              JinjaFlow& flow) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  auto ran = run_in(scope, body);
  out_ = outer;
  unclaimed_bytes_ -= text.size();
  PENSTOCK_ASSIGN(flow, std::move(ran));
  return text;
}

Result<JinjaValue> JinjaRender::captured(const JinjaScopePtr& scope, const JinjaBody& body) {
  const JinjaLevel call(calls_);
  PENSTOCK_TRY(call.check_calls(meter_.limits()));
  JinjaFlow flow = JinjaFlow::kNext;
  PENSTOCK_ASSIGN(std::string text, capture_text(scope, body, flow));
  return jinja_text(meter_, std::move(text));
}

Result<JinjaFlow> JinjaRender::run_in(const JinjaScopePtr& scope, const JinjaBody& body) {
  const JinjaScopePtr outer = std::exchange(scope_, scope);
  auto flow = run_body(body);
  scope_ = outer;
  return flow;
}

Result<JinjaFlow> JinjaRender::run_body(const JinjaBody& body) {
  for (const JinjaStmt& statement : body) {
    PENSTOCK_ASSIGN(const JinjaFlow flow, run_statement(statement));
    if (flow != JinjaFlow::kNext) return flow;
  }
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_statement(const JinjaStmt& statement) {
  const JinjaLevel level(levels_);
  PENSTOCK_TRY(level.check(meter_.limits()));
  PENSTOCK_TRY(meter_.step());
  line_ = statement.line;
  return std::visit([this](const auto& node) { return run_node(node); }, statement.node);
}

Result<JinjaFlow> JinjaRender::run_node(const TextStmt& node) {
  PENSTOCK_TRY(print(node.text));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const PrintStmt& node) {
  PENSTOCK_ASSIGN(const JinjaValue value, evaluate(*node.value));
  PENSTOCK_TRY(print_value(value));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const SetStmt& node) {
  PENSTOCK_ASSIGN(const JinjaValue value, evaluate(*node.value));
  PENSTOCK_TRY(assign(*scope_, node.target, value));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const SetBlockStmt& node) {
  JinjaFlow flow = JinjaFlow::kNext;
  PENSTOCK_ASSIGN(std::string text, capture_text(new_scope(scope_), node.body, flow));
  if (flow != JinjaFlow::kNext) return flow;
  PENSTOCK_ASSIGN(const JinjaValue value,
                  apply_filters(node.filter, jinja_text(meter_, std::move(text))));
  PENSTOCK_TRY(assign(*scope_, node.target, value));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const FilterBlockStmt& node) {
  JinjaFlow flow = JinjaFlow::kNext;
  PENSTOCK_ASSIGN(std::string text, capture_text(new_scope(scope_), node.body, flow));
  if (flow != JinjaFlow::kNext) return flow;
  PENSTOCK_ASSIGN(const JinjaValue value,
                  apply_filters(node.filter, jinja_text(meter_, std::move(text))));
  PENSTOCK_TRY(print_value(value));
  return JinjaFlow::kNext;
}

Result<JinjaValue> JinjaRender::apply_filters(const JinjaExprPtr& filter, JinjaValue text) {
  if (!filter) return text;
  const JinjaScopePtr scope = new_scope(scope_);
  scope->set(JinjaTemplate::kCaught, std::move(text));
  return evaluate_in(scope, *filter);
}

Result<JinjaFlow> JinjaRender::run_node(const IfStmt& node) {
  for (const auto& [test, body] : node.branches) {
    PENSTOCK_ASSIGN(const JinjaValue value, evaluate(*test));
    if (value.truth()) return run_body(body);
  }
  return run_body(node.otherwise);
}

Result<JinjaFlow> JinjaRender::run_node(const ForStmt& node) {
  PENSTOCK_ASSIGN(const JinjaValue iterable, evaluate(*node.iterable));
  return run_loop(node, scope_, iterable, /*depth0=*/0);
}

Result<JinjaFlow> JinjaRender::run_loop(const ForStmt& node, const JinjaScopePtr& outer,
                                        const JinjaValue& iterable, size_t depth0) {
  JinjaValue source = iterable;
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(meter_, iterable));
  if (node.condition) {
    source = filtered(node, outer, std::move(cursor));
    cursor = JinjaCursor(meter_, source);
  }
  const auto loop = std::make_shared<JinjaLoop>(node, outer, std::move(cursor), length_of(source),
                                                depth0, source.depth() + 1);
  auto flow = run_iterations(node, outer, loop);
  loop->finish();
  return flow;
}

Result<JinjaFlow> JinjaRender::run_iterations(const ForStmt& node, const JinjaScopePtr& outer,
                                              const std::shared_ptr<JinjaLoop>& loop) {
  bool completed = false;  // some iteration reached its end: a break or continue does not count
  while (true) {
    PENSTOCK_ASSIGN(const auto item, loop->advance());
    if (!item) break;
    const JinjaScopePtr scope = new_scope(outer);
    scope->set(JinjaTemplate::kLoop, JinjaValue(JinjaValue::Object(loop)));
    PENSTOCK_TRY(assign(*scope, node.target, *item));
    PENSTOCK_ASSIGN(const JinjaFlow flow, run_in(scope, node.body));
    if (flow == JinjaFlow::kBreak) break;
    completed = completed || flow == JinjaFlow::kNext;
  }
  if (completed) return JinjaFlow::kNext;
  return run_in(new_scope(outer), node.otherwise);
}

// The items for which the loop's condition holds, each judged when it is asked for: the body may
// have changed a namespace by then.
JinjaValue JinjaRender::filtered(const ForStmt& node, const JinjaScopePtr& outer,
                                 JinjaCursor cursor) {
  const auto next = [this, &node, outer, cursor]() mutable -> Result<std::optional<JinjaValue>> {
    while (true) {
      PENSTOCK_ASSIGN(auto item, cursor.next());
      if (!item) return item;
      const JinjaScopePtr scope = new_scope(outer);
      PENSTOCK_TRY(assign(*scope, node.target, *item));
      PENSTOCK_ASSIGN(const JinjaValue holds, evaluate_in(scope, *node.condition));
      if (holds.truth()) return item;
    }
  };
  return jinja_iterator(meter_, cursor.depth(), next);
}

Result<JinjaValue> JinjaRender::recurse(const ForStmt& loop, const JinjaScopePtr& outer,
                                        const JinjaValue& iterable, size_t depth0) {
  const JinjaLevel call(calls_);
  PENSTOCK_TRY(call.check_calls(meter_.limits()));
  std::string text;
  std::string* const output = std::exchange(out_, &text);
  auto ran = run_loop(loop, outer, iterable, depth0);
  out_ = output;
  unclaimed_bytes_ -= text.size();
  PENSTOCK_TRY(std::move(ran));
  return jinja_text(meter_, std::move(text));
}

Result<void> JinjaRender::assign(JinjaScope& scope, const JinjaTarget& target,
                                 const JinjaValue& value) {
  if (target.is_tuple) return assign_parts(scope, target, value);
  if (target.attribute.empty()) {
    scope.set(target.name, value);
    return {};
  }
  const JinjaValue* holder = scope.find(target.name);
  auto* space = holder != nullptr ? dynamic_cast<JinjaNamespace*>(holder->as_object()) : nullptr;
  if (space == nullptr) return jinja_error("cannot assign attribute on non-namespace object");
  return space->set(target.attribute, value);
}

Result<void> JinjaRender::assign_parts(JinjaScope& scope, const JinjaTarget& target,
                                       const JinjaValue& value) {
  if (!is_iterable(value)) {
    return jinja_error("cannot unpack non-iterable {} object", value.type_name());
  }
  JinjaCursor cursor(meter_, value);
  for (size_t i = 0; i < target.parts.size(); ++i) {
    PENSTOCK_ASSIGN(const auto part, cursor.next());
    if (!part) {
      return jinja_error("not enough values to unpack (expected {}, got {})", target.parts.size(),
                         i);
    }
    PENSTOCK_TRY(assign(scope, target.parts[i], *part));
  }
  PENSTOCK_ASSIGN(const auto extra, cursor.next());
  if (extra) return jinja_error("too many values to unpack (expected {})", target.parts.size());
  return {};
}

// A macro that sees the variables of the current scope, also those that are set later.
JinjaValue JinjaRender::new_macro(const JinjaMacroCode& code) {
  if (!scope_->is_captured) {
    scope_->is_captured = true;
    captured_scopes_.push_back(scope_);
  }
  return JinjaValue(JinjaValue::Object(std::make_shared<JinjaMacro>(code, scope_)));
}

Result<JinjaFlow> JinjaRender::run_node(const MacroStmt& node) {
  scope_->set(node.name, new_macro(*node.code));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const CallBlockStmt& node) {
  const auto& call_expr = std::get<CallExpr>(node.call->node);
  PENSTOCK_ASSIGN(const JinjaValue callee, evaluate(*call_expr.callee));
  PENSTOCK_ASSIGN(JinjaArgs args, evaluate_args(call_expr.args));
  args.named.emplace_back("caller", new_macro(*node.code));
  PENSTOCK_ASSIGN(const JinjaValue printed, call(callee, args));
  PENSTOCK_TRY(print_value(printed));
  return JinjaFlow::kNext;
}

Result<JinjaFlow> JinjaRender::run_node(const WithStmt& node) {
  const JinjaScopePtr scope = new_scope(scope_);
  for (const auto& [target, expr] : node.variables) {
    PENSTOCK_ASSIGN(const JinjaValue value, evaluate(*expr));
    PENSTOCK_TRY(assign(*scope, target, value));
  }
  return run_in(scope, node.body);
}

Result<JinjaFlow> JinjaRender::run_node(const ScopeStmt& node) {
  return run_in(new_scope(scope_), node.body);
}

// Without a template that extends this one a block prints in place, but sees the template's
// variables only, unless it is scoped.
Result<JinjaFlow> JinjaRender::run_node(const BlockStmt& node) {
  return run_in(new_scope(node.scoped ? scope_ : root_), node.body);
}

Result<JinjaFlow> JinjaRender::run_node(const BreakStmt& /*node*/) { return JinjaFlow::kBreak; }

Result<JinjaFlow> JinjaRender::run_node(const ContinueStmt& /*node*/) {
  return JinjaFlow::kContinue;
}

}  // namespace penstock
