// Expressions, one function for each level of precedence, loosest first.
#include <algorithm>

#include "text/jinja/expr_depth.h"
#include "text/jinja/filters.h"
#include "text/jinja/parser_base.h"
#include "text/jinja/predicates.h"

namespace penstock {
template <class Node>
Result<JinjaExprPtr> JinjaExpressionParser::make(int line, Node node) {
  const size_t depth = 1 + depth_inside(node);
  if (depth > limits_.max_depth) return too_deep();
  return std::make_unique<const JinjaExpr>(JinjaExpr{line, depth, std::move(node)});
}

JinjaExprPtr JinjaExpressionParser::make_name(int line, JinjaName name) {
  return std::make_unique<const JinjaExpr>(JinjaExpr{line, 1, NameExpr{name}});
}

Result<JinjaExprPtr> JinjaExpressionParser::make_concat(int line, ConcatExpr concat) {
  return make(line, std::move(concat));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_expression(bool with_condition) {
  const Nesting nesting(depth_);
  if (is_too_deep()) return too_deep();
  return with_condition ? parse_condition() : parse_or();
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_condition() {
  const int line = peek().line;
  const size_t unknown_before = unknown_.size();
  PENSTOCK_ASSIGN(JinjaExprPtr expr, parse_or());
  while (take_name("if")) {
    ConditionExpr condition{nullptr, std::move(expr), nullptr};
    PENSTOCK_ASSIGN(condition.test, parse_or());
    if (take_name("else")) {
      PENSTOCK_ASSIGN(condition.otherwise, parse_expression());
    }
    unknown_.resize(unknown_before);
    PENSTOCK_ASSIGN(expr, make(line, std::move(condition)));
  }
  return expr;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_or() {
  PENSTOCK_ASSIGN(JinjaExprPtr left, parse_and());
  while (is_name("or")) {
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr right, parse_and());
    PENSTOCK_ASSIGN(left, make(line, LogicExpr{false, std::move(left), std::move(right)}));
  }
  return left;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_and() {
  PENSTOCK_ASSIGN(JinjaExprPtr left, parse_not());
  while (is_name("and")) {
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr right, parse_not());
    PENSTOCK_ASSIGN(left, make(line, LogicExpr{true, std::move(left), std::move(right)}));
  }
  return left;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_not() {
  if (!is_name("not")) return parse_comparison();
  const Nesting nesting(depth_);
  if (is_too_deep()) return too_deep();
  const int line = take().line;
  PENSTOCK_ASSIGN(JinjaExprPtr operand, parse_not());
  return make(line, UnaryExpr{JinjaUnary::kNot, std::move(operand)});
}

std::optional<JinjaComparison> JinjaExpressionParser::take_comparison() {
  constexpr std::pair<std::string_view, JinjaComparison> kOperators[] = {
      {"==", JinjaComparison::kEqual},  {"!=", JinjaComparison::kNotEqual},
      {"<", JinjaComparison::kLess},    {"<=", JinjaComparison::kLessEqual},
      {">", JinjaComparison::kGreater}, {">=", JinjaComparison::kGreaterEqual},
  };
  for (const auto& [symbol, comparison] : kOperators) {
    if (take_operator(symbol)) return comparison;
  }
  if (take_name("in")) return JinjaComparison::kIn;
  if (is_name("not") && peek(1).is_name("in")) {
    take();
    take();
    return JinjaComparison::kNotIn;
  }
  return std::nullopt;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_comparison() {
  const int line = peek().line;
  PENSTOCK_ASSIGN(JinjaExprPtr first, parse_sum());
  CompareExpr compare;
  while (const auto comparison = take_comparison()) {
    PENSTOCK_ASSIGN(JinjaExprPtr operand, parse_sum());
    compare.rest.emplace_back(*comparison, std::move(operand));
  }
  if (compare.rest.empty()) return first;
  compare.first = std::move(first);
  return make(line, std::move(compare));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_sum() {
  PENSTOCK_ASSIGN(JinjaExprPtr left, parse_concat());
  while (is_operator("+") || is_operator("-")) {
    const JinjaOperator op = is_operator("+") ? JinjaOperator::kAdd : JinjaOperator::kSubtract;
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr right, parse_concat());
    PENSTOCK_ASSIGN(left, make(line, BinaryExpr{op, std::move(left), std::move(right)}));
  }
  return left;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_concat() {
  const int line = peek().line;
  PENSTOCK_ASSIGN(JinjaExprPtr first, parse_product());
  if (!is_operator("~")) return first;
  ConcatExpr concat;
  concat.parts.push_back(std::move(first));
  while (take_operator("~")) {
    PENSTOCK_ASSIGN(JinjaExprPtr part, parse_product());
    concat.parts.push_back(std::move(part));
  }
  return make(line, std::move(concat));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_product() {
  constexpr std::pair<std::string_view, JinjaOperator> kOperators[] = {
      {"*", JinjaOperator::kMultiply},
      {"/", JinjaOperator::kDivide},
      {"//", JinjaOperator::kFloorDivide},
      {"%", JinjaOperator::kModulo},
  };
  PENSTOCK_ASSIGN(JinjaExprPtr left, parse_power());
  while (true) {
    const auto* op = std::ranges::find_if(
        kOperators, [&](const auto& entry) { return is_operator(entry.first); });
    if (op == std::end(kOperators)) return left;
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr right, parse_power());
    PENSTOCK_ASSIGN(left, make(line, BinaryExpr{op->second, std::move(left), std::move(right)}));
  }
}

// Binds to the left, unlike Python's.
Result<JinjaExprPtr> JinjaExpressionParser::parse_power() {
  PENSTOCK_ASSIGN(JinjaExprPtr left, parse_unary(/*with_filters=*/true));
  while (is_operator("**")) {
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr right, parse_unary(/*with_filters=*/true));
    PENSTOCK_ASSIGN(
        left, make(line, BinaryExpr{JinjaOperator::kPower, std::move(left), std::move(right)}));
  }
  return left;
}

// Filters bind looser than the sign: -5|abs is 5.
Result<JinjaExprPtr> JinjaExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(depth_);
  if (is_too_deep()) return too_deep();
  JinjaExprPtr expr;
  if (is_operator("-") || is_operator("+")) {
    const JinjaUnary op = is_operator("-") ? JinjaUnary::kNegative : JinjaUnary::kPositive;
    const int line = take().line;
    PENSTOCK_ASSIGN(JinjaExprPtr operand, parse_unary(/*with_filters=*/false));
    PENSTOCK_ASSIGN(expr, make(line, UnaryExpr{op, std::move(operand)}));
  } else {
    PENSTOCK_ASSIGN(expr, parse_primary());
  }
  PENSTOCK_ASSIGN(expr, parse_postfix(std::move(expr)));
  if (!with_filters) return expr;
  return parse_filters_and_tests(std::move(expr));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_primary() {
  const JinjaToken& token = peek();
  switch (token.kind) {
    case JinjaTokenKind::kName:
      return parse_name();
    case JinjaTokenKind::kString: {
      std::string text;
      while (peek().kind == JinjaTokenKind::kString) text += take().text;
      return make(token.line, LiteralExpr{jinja_literal(std::move(text))});
    }
    case JinjaTokenKind::kInteger:
      return make(token.line, LiteralExpr{JinjaValue(take().integer)});
    case JinjaTokenKind::kFloat:
      return make(token.line, LiteralExpr{JinjaValue(take().real)});
    default:
      break;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  if (!take_operator("(")) return error("unexpected {}", found());
  PENSTOCK_ASSIGN(JinjaExprPtr inner, parse_tuple(true, /*parenthesized=*/true));
  PENSTOCK_TRY(expect_operator(")"));
  return inner;
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_name() {
  const JinjaToken& token = take();
  if (token.text == "true" || token.text == "True") {
    return make(token.line, LiteralExpr{JinjaValue(true)});
  }
  if (token.text == "false" || token.text == "False") {
    return make(token.line, LiteralExpr{JinjaValue(false)});
  }
  if (token.text == "none" || token.text == "None") {
    return make(token.line, LiteralExpr{JinjaValue()});
  }
  for (JinjaMacroCode* macro : macros_) {
    macro->uses_caller = macro->uses_caller || token.text == "caller";
    macro->uses_varargs = macro->uses_varargs || token.text == "varargs";
    macro->uses_kwargs = macro->uses_kwargs || token.text == "kwargs";
  }
  return make_name(token.line, intern(token.text));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_tuple(bool with_condition, bool parenthesized) {
  const int line = peek().line;
  const auto at_end = [&] {
    return peek().kind == JinjaTokenKind::kVariableEnd ||
           peek().kind == JinjaTokenKind::kBlockEnd || is_operator(")");
  };
  SequenceExpr tuple{JinjaSequenceKind::kTuple, {}};
  bool has_comma = false;
  while (!at_end()) {
    PENSTOCK_ASSIGN(JinjaExprPtr item, parse_expression(with_condition));
    tuple.items.push_back(std::move(item));
    if (!take_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && tuple.items.size() == 1) return std::move(tuple.items.front());
  if (tuple.items.empty() && !parenthesized)
    return error("expected an expression, got {}", found());
  return make(line, std::move(tuple));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_list() {
  const int line = take().line;
  SequenceExpr list{JinjaSequenceKind::kList, {}};
  while (!is_operator("]")) {
    if (!list.items.empty()) {
      PENSTOCK_TRY(expect_operator(","));
      if (is_operator("]")) break;
    }
    PENSTOCK_ASSIGN(JinjaExprPtr item, parse_expression());
    list.items.push_back(std::move(item));
  }
  take();
  return make(line, std::move(list));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_dict() {
  const int line = take().line;
  DictExpr dict;
  while (!is_operator("}")) {
    if (!dict.entries.empty()) {
      PENSTOCK_TRY(expect_operator(","));
      if (is_operator("}")) break;
    }
    PENSTOCK_ASSIGN(JinjaExprPtr key, parse_expression());
    PENSTOCK_TRY(expect_operator(":"));
    PENSTOCK_ASSIGN(JinjaExprPtr value, parse_expression());
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  take();
  return make(line, std::move(dict));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_postfix(JinjaExprPtr expr) {
  while (true) {
    if (is_operator(".")) {
      PENSTOCK_ASSIGN(expr, parse_attribute(std::move(expr)));
    } else if (is_operator("[")) {
      PENSTOCK_ASSIGN(expr, parse_subscript(std::move(expr)));
    } else if (is_operator("(")) {
      PENSTOCK_ASSIGN(expr, parse_call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_filters_and_tests(JinjaExprPtr expr) {
  while (true) {
    if (take_operator("|")) {
      PENSTOCK_ASSIGN(expr, parse_filter(std::move(expr)));
    } else if (is_name("is")) {
      PENSTOCK_ASSIGN(expr, parse_test(std::move(expr)));
    } else if (is_operator("(")) {
      PENSTOCK_ASSIGN(expr, parse_call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_attribute(JinjaExprPtr object) {
  const int line = take().line;
  const JinjaToken& token = peek();
  if (token.kind == JinjaTokenKind::kInteger) {
    PENSTOCK_ASSIGN(JinjaExprPtr index, make(line, LiteralExpr{JinjaValue(take().integer)}));
    return make(line, ItemExpr{std::move(object), std::move(index)});
  }
  if (token.kind != JinjaTokenKind::kName)
    return error("expected a name or number, got {}", found());
  return make(line, AttributeExpr{std::move(object), take().text});
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_subscript(JinjaExprPtr object) {
  const int line = take().line;
  if (is_operator(":")) return parse_slice(std::move(object), nullptr, line);
  if (is_operator("]")) return error("expected a subscript, got {}", found());
  SequenceExpr indices{JinjaSequenceKind::kTuple, {}};
  do {
    PENSTOCK_ASSIGN(JinjaExprPtr index, parse_expression());
    if (is_operator(":")) {
      if (!indices.items.empty()) return error("a slice among several subscripts");
      return parse_slice(std::move(object), std::move(index), line);
    }
    indices.items.push_back(std::move(index));
  } while (take_operator(","));
  PENSTOCK_TRY(expect_operator("]"));
  JinjaExprPtr index = std::move(indices.items.front());
  if (indices.items.size() > 1) {
    indices.items.front() = std::move(index);
    PENSTOCK_ASSIGN(index, make(line, std::move(indices)));
  }
  return make(line, ItemExpr{std::move(object), std::move(index)});
}

// From the first colon on.
Result<JinjaExprPtr> JinjaExpressionParser::parse_slice(JinjaExprPtr object, JinjaExprPtr start,
                                                        int line) {
  SliceExpr slice{std::move(object), std::move(start), nullptr, nullptr};
  for (JinjaExprPtr* bound : {&slice.stop, &slice.step}) {
    if (!take_operator(":")) break;
    if (is_operator(":") || is_operator("]")) continue;
    PENSTOCK_ASSIGN(*bound, parse_expression());
  }
  if (is_operator(",")) return error("a slice among several subscripts");
  PENSTOCK_TRY(expect_operator("]"));
  return make(line, std::move(slice));
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_call(JinjaExprPtr callee) {
  const int line = peek().line;
  PENSTOCK_ASSIGN(JinjaArgExprs args, parse_arguments());
  return make(line, CallExpr{std::move(callee), std::move(args)});
}

Result<JinjaArgExprs> JinjaExpressionParser::parse_arguments() {
  PENSTOCK_TRY(expect_operator("("));
  JinjaArgExprs args;
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) {
      PENSTOCK_TRY(expect_operator(","));
      if (is_operator(")")) break;
    }
    PENSTOCK_TRY(parse_argument(args));
  }
  take();
  return args;
}

Result<void> JinjaExpressionParser::parse_argument(JinjaArgExprs& args) {
  bool in_order = true;
  if (take_operator("*")) {
    in_order = !args.star && !args.star_star;
    PENSTOCK_ASSIGN(args.star, parse_expression());
  } else if (take_operator("**")) {
    in_order = !args.star_star;
    PENSTOCK_ASSIGN(args.star_star, parse_expression());
  } else if (peek().kind == JinjaTokenKind::kName && peek(1).is_operator("=")) {
    in_order = !args.star_star;
    const std::string name = take().text;
    take();
    for (const auto& [other, value] : args.named) {
      if (other == name) return error("keyword argument repeated: {}", name);
    }
    PENSTOCK_ASSIGN(JinjaExprPtr value, parse_expression());
    args.named.emplace_back(name, std::move(value));
  } else {
    in_order = !args.star && !args.star_star && args.named.empty();
    PENSTOCK_ASSIGN(JinjaExprPtr value, parse_expression());
    args.positional.push_back(std::move(value));
  }
  if (!in_order) return error("invalid syntax for function call expression");
  return {};
}

Result<std::string> JinjaExpressionParser::parse_dotted_name() {
  PENSTOCK_ASSIGN(std::string name, expect_name());
  while (take_operator(".")) {
    PENSTOCK_ASSIGN(const std::string part, expect_name());
    name += "." + part;
  }
  return name;
}

// The '|' has been taken.
Result<JinjaExprPtr> JinjaExpressionParser::parse_filter(JinjaExprPtr subject) {
  const int line = peek().line;
  PENSTOCK_ASSIGN(std::string name, parse_dotted_name());
  if (find_filter(name) == nullptr) {
    unknown_.push_back(fmt::format("line {}: {}", line, unknown_filter(name)));
  }
  JinjaArgExprs args;
  if (is_operator("(")) {
    PENSTOCK_ASSIGN(args, parse_arguments());
  }
  return make(line, FilterExpr{std::move(subject), std::move(name), std::move(args)});
}

bool JinjaExpressionParser::starts_operand() const {
  switch (peek().kind) {
    case JinjaTokenKind::kString:
    case JinjaTokenKind::kInteger:
    case JinjaTokenKind::kFloat:
      return true;
    case JinjaTokenKind::kName:
      return !is_name("else") && !is_name("or") && !is_name("and");
    default:
      return is_operator("(") || is_operator("[") || is_operator("{");
  }
}

Result<JinjaExprPtr> JinjaExpressionParser::parse_test(JinjaExprPtr subject) {
  const int line = take().line;
  const bool negated = take_name("not");
  PENSTOCK_ASSIGN(std::string name, parse_dotted_name());
  if (find_test(name) == nullptr) {
    unknown_.push_back(fmt::format("line {}: {}", line, unknown_test(name)));
  }
  JinjaArgExprs args;
  if (is_operator("(")) {
    PENSTOCK_ASSIGN(args, parse_arguments());
  } else if (starts_operand()) {
    if (is_name("is")) return error("tests with `is` cannot be chained");
    PENSTOCK_ASSIGN(JinjaExprPtr operand, parse_primary());
    PENSTOCK_ASSIGN(operand, parse_postfix(std::move(operand)));
    args.positional.push_back(std::move(operand));
  }
  PENSTOCK_ASSIGN(JinjaExprPtr test,
                  make(line, TestExpr{std::move(subject), std::move(name), std::move(args)}));
  if (!negated) return test;
  return make(line, UnaryExpr{JinjaUnary::kNot, std::move(test)});
}

}  // namespace penstock
