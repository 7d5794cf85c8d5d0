// Expressions, and what a render as a whole does.
#include "text/jinja/evaluator.h"

#include <variant>

#include "text/jinja/attributes.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"
#include "text/jinja/json.h"
#include "text/jinja/level.h"
#include "text/jinja/operators.h"
#include "text/jinja/predicates.h"
#include "text/jinja/printing.h"

namespace penstock {

JinjaRender::~JinjaRender() {
  // Namespaces and the scopes of macros may hold themselves.
  for (const auto& made : namespaces_) made->clear();
  for (const JinjaScopePtr& scope : captured_scopes_) scope->clear();
}

Result<std::string> JinjaRender::run(const OrderedJson& inputs) {
  root_ = new_scope(nullptr);
  PENSTOCK_TRY(define_inputs(inputs));
  root_ = new_scope(root_);
  std::string out;
  out_ = &out;
  PENSTOCK_TRY(run_in(root_, code_.body));
  return out;
}

// Only the variables that the template names.
Result<void> JinjaRender::define_inputs(const OrderedJson& inputs) {
  if (!inputs.is_object()) {
    return fail(ErrorKind::kInvalidArgument,
                "the template's variables must be a JSON object, not {}", inputs.type_name());
  }
  for (JinjaName name = JinjaTemplate::kLoop; name < code_.names.size(); ++name) {
    const std::string& text = code_.names[name];
    if (const auto input = inputs.find(text); input != inputs.end()) {
      auto value = jinja_from_json(meter_, *input);
      if (!value) return std::unexpected(value.error().in("variable '" + text + "'"));
      root_->set(name, *std::move(value));
    } else if (auto global = find_global(text)) {
      root_->set(name, *std::move(global));
    }
  }
  return {};
}

Result<JinjaValue> JinjaRender::evaluate(const JinjaExpr& expr) {
  const JinjaLevel level(levels_);
  PENSTOCK_TRY(level.check(meter_.limits()));
  PENSTOCK_TRY(meter_.step());
  line_ = expr.line;
  return std::visit([this](const auto& node) { return evaluate_node(node); }, expr.node);
}

Result<JinjaValue> JinjaRender::evaluate_or_none(const JinjaExprPtr& expr) {
  if (!expr) return JinjaValue();
  return evaluate(*expr);
}

Result<JinjaValue> JinjaRender::evaluate_in(const JinjaScopePtr& scope, const JinjaExpr& expr) {
  const JinjaScopePtr outer = std::exchange(scope_, scope);
  auto value = evaluate(expr);
  scope_ = outer;
  return value;
}

Result<JinjaValue> JinjaRender::evaluate_node(const LiteralExpr& node) { return node.value; }

Result<JinjaValue> JinjaRender::evaluate_node(const NameExpr& node) {
  if (const JinjaValue* value = scope_->find(node.name)) return *value;
  return JinjaValue::undefined(fmt::format("'{}' is undefined", code_.names[node.name]));
}

Result<JinjaValue> JinjaRender::evaluate_node(const SequenceExpr& node) {
  JinjaValues items;
  items.reserve(node.items.size());
  for (const JinjaExprPtr& item : node.items) {
    PENSTOCK_ASSIGN(JinjaValue value, evaluate(*item));
    items.push_back(std::move(value));
  }
  return jinja_sequence(meter_, node.kind, std::move(items));
}

Result<JinjaValue> JinjaRender::evaluate_node(const DictExpr& node) {
  JinjaDict dict;
  for (const auto& [key_expr, value_expr] : node.entries) {
    PENSTOCK_ASSIGN(JinjaValue key, evaluate(*key_expr));
    PENSTOCK_ASSIGN(JinjaValue value, evaluate(*value_expr));
    PENSTOCK_TRY(hashable(key));
    dict.set(std::move(key), std::move(value));
  }
  return jinja_dict(meter_, std::move(dict));
}

Result<JinjaValue> JinjaRender::evaluate_node(const UnaryExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue operand, evaluate(*node.operand));
  switch (node.op) {
    case JinjaUnary::kNot:
      return JinjaValue(!operand.truth());
    case JinjaUnary::kNegative:
      return jinja_negative(operand);
    case JinjaUnary::kPositive:
      return jinja_positive(operand);
  }
  return JinjaValue();
}

Result<JinjaValue> JinjaRender::evaluate_node(const BinaryExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue left, evaluate(*node.left));
  PENSTOCK_ASSIGN(const JinjaValue right, evaluate(*node.right));
  return jinja_binary(meter_, node.op, left, right);
}

Result<JinjaValue> JinjaRender::evaluate_node(const LogicExpr& node) {
  PENSTOCK_ASSIGN(JinjaValue left, evaluate(*node.left));
  if (left.truth() != node.is_and) return left;
  return evaluate(*node.right);
}

Result<JinjaValue> JinjaRender::evaluate_node(const ConcatExpr& node) {
  std::string joined;
  for (const JinjaExprPtr& part : node.parts) {
    PENSTOCK_ASSIGN(const JinjaValue value, evaluate(*part));
    PENSTOCK_ASSIGN(const std::string text, jinja_str(meter_, value));
    PENSTOCK_TRY(meter_.has_room(joined.size() + text.size()));
    joined += text;
  }
  return jinja_text(meter_, std::move(joined));
}

Result<bool> JinjaRender::compare(JinjaComparison comparison, const JinjaValue& a,
                                  const JinjaValue& b) {
  switch (comparison) {
    case JinjaComparison::kEqual:
      return jinja_equal(meter_, a, b);
    case JinjaComparison::kLess:
      return jinja_ordered(meter_, JinjaOrder::kLess, a, b);
    case JinjaComparison::kLessEqual:
      return jinja_ordered(meter_, JinjaOrder::kLessEqual, a, b);
    case JinjaComparison::kGreater:
      return jinja_ordered(meter_, JinjaOrder::kGreater, a, b);
    case JinjaComparison::kGreaterEqual:
      return jinja_ordered(meter_, JinjaOrder::kGreaterEqual, a, b);
    case JinjaComparison::kIn:
      return jinja_contains(meter_, b, a);
    case JinjaComparison::kNotEqual: {
      PENSTOCK_ASSIGN(const bool equal, jinja_equal(meter_, a, b));
      return !equal;
    }
    case JinjaComparison::kNotIn: {
      PENSTOCK_ASSIGN(const bool inside, jinja_contains(meter_, b, a));
      return !inside;
    }
  }
  return false;
}

Result<JinjaValue> JinjaRender::evaluate_node(const CompareExpr& node) {
  PENSTOCK_ASSIGN(JinjaValue left, evaluate(*node.first));
  for (const auto& [comparison, operand] : node.rest) {
    PENSTOCK_ASSIGN(JinjaValue right, evaluate(*operand));
    PENSTOCK_ASSIGN(const bool holds, compare(comparison, left, right));
    if (!holds) return JinjaValue(false);
    left = std::move(right);
  }
  return JinjaValue(true);
}

Result<JinjaValue> JinjaRender::evaluate_node(const ConditionExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue test, evaluate(*node.test));
  if (test.truth()) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return JinjaValue::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      line_));
}

Result<JinjaValue> JinjaRender::evaluate_node(const AttributeExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue object, evaluate(*node.object));
  return get_attribute(*this, object, node.name);
}

Result<JinjaValue> JinjaRender::evaluate_node(const ItemExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue object, evaluate(*node.object));
  PENSTOCK_ASSIGN(const JinjaValue index, evaluate(*node.index));
  return get_item(*this, object, index);
}

Result<JinjaValue> JinjaRender::evaluate_node(const SliceExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue object, evaluate(*node.object));
  PENSTOCK_ASSIGN(const JinjaValue start, evaluate_or_none(node.start));
  PENSTOCK_ASSIGN(const JinjaValue stop, evaluate_or_none(node.stop));
  PENSTOCK_ASSIGN(const JinjaValue step, evaluate_or_none(node.step));
  return jinja_slice(meter_, object, start, stop, step);
}

Result<JinjaValue> JinjaRender::evaluate_node(const CallExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue callee, evaluate(*node.callee));
  PENSTOCK_ASSIGN(const JinjaArgs args, evaluate_args(node.args));
  return call(callee, args);
}

Result<JinjaValue> JinjaRender::evaluate_node(const FilterExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue subject, evaluate(*node.subject));
  PENSTOCK_ASSIGN(const JinjaArgs args, evaluate_args(node.args));
  return filter(node.name, subject, args);
}

Result<JinjaValue> JinjaRender::evaluate_node(const TestExpr& node) {
  PENSTOCK_ASSIGN(const JinjaValue subject, evaluate(*node.subject));
  PENSTOCK_ASSIGN(const JinjaArgs args, evaluate_args(node.args));
  PENSTOCK_ASSIGN(const bool holds, test(node.name, subject, args));
  return JinjaValue(holds);
}

Result<JinjaArgs> JinjaRender::evaluate_args(const JinjaArgExprs& exprs) {
  JinjaArgs args;
  args.positional.reserve(exprs.positional.size());
  for (const JinjaExprPtr& expr : exprs.positional) {
    PENSTOCK_ASSIGN(JinjaValue value, evaluate(*expr));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : exprs.named) {
    PENSTOCK_ASSIGN(JinjaValue value, evaluate(*expr));
    args.named.emplace_back(name, std::move(value));
  }
  if (exprs.star) PENSTOCK_TRY(add_star_args(*exprs.star, args));
  if (exprs.star_star) PENSTOCK_TRY(add_star_star_args(*exprs.star_star, args));
  return args;
}

Result<void> JinjaRender::add_star_args(const JinjaExpr& expr, JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaValue value, evaluate(expr));
  PENSTOCK_ASSIGN(const JinjaValues items, items_of(meter_, value));
  args.positional.insert(args.positional.end(), items.begin(), items.end());
  return {};
}

Result<void> JinjaRender::add_star_star_args(const JinjaExpr& expr, JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaValue value, evaluate(expr));
  const JinjaDict* dict = value.as_dict();
  if (dict == nullptr) {
    return jinja_error("argument after ** must be a mapping, not {}", value.type_name());
  }
  PENSTOCK_TRY(meter_.step(dict->entries.size()));
  const size_t n_written = args.named.size();
  for (const auto& [key, item] : dict->entries) {
    const auto name = text_of(key);
    if (!name) return jinja_error("keywords must be strings");
    for (size_t i = 0; i < n_written; ++i) {
      if (args.named[i].first == *name) {
        return jinja_error("got multiple values for keyword argument '{}'", *name);
      }
    }
    args.named.emplace_back(*name, item);
  }
  return {};
}

Result<JinjaValue> JinjaRender::call(const JinjaValue& callee, const JinjaArgs& args) {
  if (callee.is_undefined()) return jinja_error("{}", callee.why());
  JinjaObject* object = callee.as_object();
  if (object == nullptr) return jinja_error("'{}' object is not callable", callee.type_name());
  return object->call(*this, args);
}

Result<JinjaValue> JinjaRender::filter(std::string_view name, const JinjaValue& value,
                                       const JinjaArgs& args) {
  const JinjaFilter found = find_filter(name);
  if (found == nullptr) return jinja_error("{}", unknown_filter(name));
  return found(*this, value, args);
}

Result<bool> JinjaRender::test(std::string_view name, const JinjaValue& value,
                               const JinjaArgs& args) {
  const JinjaPredicate found = find_test(name);
  if (found == nullptr) return jinja_error("{}", unknown_test(name));
  return found(*this, value, args);
}

}  // namespace penstock
