// What the parsers of expressions and of statements share: tokens, names and nesting. Only they
// include this.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace penstock {

class JinjaParserBase {
 protected:
  JinjaParserBase(std::vector<JinjaToken> tokens, const TemplateLimits& limits);

  // One more level of syntax for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(size_t& depth) : depth_(depth) { ++depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --depth_; }

   private:
    size_t& depth_;
  };

  const JinjaToken& peek(size_t ahead = 0) const;
  const JinjaToken& take();
  bool is_name(std::string_view name) const { return peek().is_name(name); }
  bool is_operator(std::string_view symbol) const { return peek().is_operator(symbol); }
  bool take_name(std::string_view name);
  bool take_operator(std::string_view symbol);
  Result<void> expect_operator(std::string_view symbol);
  Result<std::string> expect_name();

  template <class... Args>
  std::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) const {
    return jinja_error("line {}: {}", peek().line,
                       fmt::format(format, std::forward<Args>(args)...));
  }
  std::unexpected<Error> too_deep() const;
  bool is_too_deep() const { return depth_ > limits_.max_depth; }
  std::string found() const;  // the next token, as errors call it

  JinjaName intern(std::string_view name);

  TemplateLimits limits_;
  size_t depth_ = 0;
  std::unique_ptr<JinjaTemplate> result_;
  // Which of the special names each enclosing macro uses, innermost last.
  std::vector<JinjaMacroCode*> macros_;
  // Errors of unknown filters and tests. Like jinja2's, they count at once, except inside
  // conditions, which drop what was added since they began: there it is an error only when it is
  // reached.
  std::vector<std::string> unknown_;

 private:
  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  std::unordered_map<std::string, JinjaName> ids_;
};

class JinjaExpressionParser : protected JinjaParserBase {
 protected:
  using JinjaParserBase::JinjaParserBase;

  Result<JinjaExprPtr> parse_expression(bool with_condition = true);
  // An expression, or several with commas between them: a tuple.
  Result<JinjaExprPtr> parse_tuple(bool with_condition, bool parenthesized = false);
  Result<JinjaExprPtr> parse_filter(JinjaExprPtr subject);
  JinjaExprPtr make_name(int line, JinjaName name);
  Result<JinjaExprPtr> make_concat(int line, ConcatExpr concat);

 private:
  Result<JinjaExprPtr> parse_condition();
  Result<JinjaExprPtr> parse_or();
  Result<JinjaExprPtr> parse_and();
  Result<JinjaExprPtr> parse_not();
  Result<JinjaExprPtr> parse_comparison();
  std::optional<JinjaComparison> take_comparison();
  Result<JinjaExprPtr> parse_sum();
  Result<JinjaExprPtr> parse_concat();
  Result<JinjaExprPtr> parse_product();
  Result<JinjaExprPtr> parse_power();
  Result<JinjaExprPtr> parse_unary(bool with_filters);
  Result<JinjaExprPtr> parse_primary();
  Result<JinjaExprPtr> parse_name();
  Result<JinjaExprPtr> parse_list();
  Result<JinjaExprPtr> parse_dict();
  Result<JinjaExprPtr> parse_postfix(JinjaExprPtr expr);
  Result<JinjaExprPtr> parse_filters_and_tests(JinjaExprPtr expr);
  Result<JinjaExprPtr> parse_attribute(JinjaExprPtr object);
  Result<JinjaExprPtr> parse_subscript(JinjaExprPtr object);
  Result<JinjaExprPtr> parse_slice(JinjaExprPtr object, JinjaExprPtr start, int line);
  Result<JinjaExprPtr> parse_call(JinjaExprPtr callee);
  Result<JinjaExprPtr> parse_test(JinjaExprPtr subject);
  Result<JinjaArgExprs> parse_arguments();
  Result<void> parse_argument(JinjaArgExprs& args);
  Result<std::string> parse_dotted_name();
  bool starts_operand() const;

  // The node around `children`; an error when that makes it too deep.
  template <class Node>
  Result<JinjaExprPtr> make(int line, Node node);
};

}  // namespace penstock
