// Statements: the tags {% ... %} and the text between them.
#include "text/jinja/parser.h"

#include <algorithm>
#include <set>
#include <span>

#include "text/jinja/parser_base.h"

namespace penstock {
namespace {

using Names = std::initializer_list<std::string_view>;

std::string quoted_list(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    out += fmt::format("{}'{}'", out.empty() ? "" : " or ", name);
  }
  return out;
}

class Parser : private JinjaExpressionParser {
 public:
  Parser(std::vector<JinjaToken> tokens, const TemplateLimits& limits)
      : JinjaExpressionParser(std::move(tokens), limits) {}

  Result<std::unique_ptr<const JinjaTemplate>> run();

 private:
  // In the body of an `if` jinja2 forgives unknown filters until they are reached, but not in that
  // of anything else, even inside an `if`.
  enum class Body { kConditional, kPlain };

  // Until one of the tags `ends`, whose name is then the next token. `owner` is the tag being
  // closed.
  Result<JinjaBody> parse_until(std::string_view owner, Names ends, Body kind = Body::kPlain);
  // The same, and takes the one end tag.
  Result<JinjaBody> parse_to_end(std::string_view owner, std::string_view end);
  // The body of something that `break` cannot leave.
  Result<JinjaBody> parse_closed_body(std::string_view owner, std::string_view end);
  Result<void> expect_block_end();
  // The end of a tag that has a body; a colon before it is as good, as in Python.
  Result<void> begin_body();

  Result<JinjaStmt> parse_print();
  Result<JinjaStmt> parse_statement(std::string_view owner, Names ends);
  Result<JinjaStmt> parse_tag(const std::string& tag, int line);
  Result<JinjaStmt> parse_set(int line);
  Result<JinjaStmt> parse_if(int line);
  Result<JinjaStmt> parse_for(int line);
  Result<JinjaStmt> parse_macro(int line);
  Result<JinjaStmt> parse_call_block(int line);
  Result<JinjaStmt> parse_filter_block(int line);
  Result<JinjaStmt> parse_with(int line);
  Result<JinjaStmt> parse_block(int line);
  Result<JinjaStmt> parse_print_tag(int line);
  Result<JinjaStmt> parse_jump(const std::string& tag, int line);
  Result<void> parse_signature(JinjaMacroCode& code);
  Result<void> parse_macro_body(JinjaMacroCode& code, std::string_view owner, std::string_view end);

  Result<JinjaTarget> parse_targets(bool with_attributes);
  Result<JinjaTarget> parse_target(bool with_attributes);

  // Puts the unknown filters and tests found since `begin` out of the reach of a condition further
  // out.
  void keep_unknown(size_t begin) {
    certain_unknown_.insert(certain_unknown_.end(),
                            unknown_.begin() + static_cast<std::ptrdiff_t>(begin), unknown_.end());
  }

  std::vector<std::string> certain_unknown_;
  size_t loops_ = 0;  // loops around, up to the next thing that `break` cannot leave
  std::set<std::string> blocks_;
};

Result<std::unique_ptr<const JinjaTemplate>> Parser::run() {
  PENSTOCK_ASSIGN(result_->body, parse_until("", {}));
  keep_unknown(0);
  if (!certain_unknown_.empty()) return jinja_error("{}", certain_unknown_.front());
  return std::move(result_);
}

Result<JinjaBody> Parser::parse_until(std::string_view owner, Names ends, Body kind) {
  const Nesting nesting(depth_);
  if (is_too_deep()) return too_deep();
  const size_t unknown_before = unknown_.size();
  JinjaBody body;
  while (peek().kind != JinjaTokenKind::kEnd) {
    const int line = peek().line;
    if (peek().kind == JinjaTokenKind::kData) {
      body.push_back({line, TextStmt{take().text}});
    } else if (peek().kind == JinjaTokenKind::kVariableBegin) {
      PENSTOCK_ASSIGN(JinjaStmt statement, parse_print());
      body.push_back(std::move(statement));
    } else {
      take();  // the tag's beginning
      if (std::ranges::any_of(ends, [&](auto end) { return is_name(end); })) {
        if (kind == Body::kPlain) keep_unknown(unknown_before);
        unknown_.resize(unknown_before);
        return body;
      }
      PENSTOCK_ASSIGN(JinjaStmt statement, parse_statement(owner, ends));
      body.push_back(std::move(statement));
    }
  }
  if (owner.empty()) return body;
  return error("Unexpected end of template: the tag '{}' needs {}", owner, quoted_list(ends));
}

Result<JinjaBody> Parser::parse_to_end(std::string_view owner, std::string_view end) {
  PENSTOCK_ASSIGN(JinjaBody body, parse_until(owner, {end}));
  take();
  return body;
}

Result<JinjaBody> Parser::parse_closed_body(std::string_view owner, std::string_view end) {
  const size_t outer_loops = std::exchange(loops_, 0);
  auto body = parse_to_end(owner, end);
  loops_ = outer_loops;
  return body;
}

Result<void> Parser::expect_block_end() {
  if (peek().kind != JinjaTokenKind::kBlockEnd) {
    return error("expected the end of the tag, got {}", found());
  }
  take();
  return {};
}

Result<void> Parser::begin_body() {
  take_operator(":");
  return expect_block_end();
}

Result<JinjaStmt> Parser::parse_print() {
  const int line = take().line;
  PENSTOCK_ASSIGN(JinjaExprPtr value, parse_tuple(/*with_condition=*/true));
  if (peek().kind != JinjaTokenKind::kVariableEnd) {
    return error("expected the end of the expression, got {}", found());
  }
  take();
  return JinjaStmt{line, PrintStmt{std::move(value)}};
}

Result<JinjaStmt> Parser::parse_statement(std::string_view owner, Names ends) {
  const int line = peek().line;
  PENSTOCK_ASSIGN(const std::string tag, expect_name());
  constexpr std::string_view kKnown[] = {"set",        "if",     "for",      "macro",
                                         "call",       "filter", "with",     "block",
                                         "generation", "break",  "continue", "print"};
  constexpr std::string_view kFromFiles[] = {"include", "import", "from", "extends"};
  if (std::ranges::find(kFromFiles, tag) != std::end(kFromFiles)) {
    return fail(ErrorKind::kUnsupported,
                "line {}: '{}' needs other templates, and a chat template stands alone", line, tag);
  }
  if (tag == "autoescape") {
    return fail(ErrorKind::kUnsupported, "line {}: chat templates cannot turn on escaping", line);
  }
  if (std::ranges::find(kKnown, tag) == std::end(kKnown)) {
    if (owner.empty()) return jinja_error("line {}: Encountered unknown tag '{}'", line, tag);
    return jinja_error("line {}: Encountered unknown tag '{}'; the tag '{}' around it needs {}",
                       line, tag, owner, quoted_list(ends));
  }
  PENSTOCK_ASSIGN(JinjaStmt statement, parse_tag(tag, line));
  PENSTOCK_TRY(expect_block_end());
  return statement;
}

Result<JinjaStmt> Parser::parse_tag(const std::string& tag, int line) {
  if (tag == "set") return parse_set(line);
  if (tag == "if") return parse_if(line);
  if (tag == "for") return parse_for(line);
  if (tag == "macro") return parse_macro(line);
  if (tag == "call") return parse_call_block(line);
  if (tag == "filter") return parse_filter_block(line);
  if (tag == "with") return parse_with(line);
  if (tag == "block") return parse_block(line);
  if (tag == "print") return parse_print_tag(line);
  if (tag == "generation") {
    PENSTOCK_TRY(begin_body());
    PENSTOCK_ASSIGN(JinjaBody body, parse_closed_body(tag, "endgeneration"));
    return JinjaStmt{line, ScopeStmt{std::move(body)}};
  }
  return parse_jump(tag, line);
}

Result<JinjaStmt> Parser::parse_set(int line) {
  PENSTOCK_ASSIGN(JinjaTarget target, parse_targets(/*with_attributes=*/true));
  if (take_operator("=")) {
    PENSTOCK_ASSIGN(JinjaExprPtr value, parse_tuple(/*with_condition=*/true));
    return JinjaStmt{line, SetStmt{std::move(target), std::move(value)}};
  }
  SetBlockStmt set{std::move(target), nullptr, {}};
  while (take_operator("|")) {
    if (!set.filter) set.filter = make_name(line, JinjaTemplate::kCaught);
    PENSTOCK_ASSIGN(set.filter, parse_filter(std::move(set.filter)));
  }
  PENSTOCK_TRY(begin_body());
  PENSTOCK_ASSIGN(set.body, parse_to_end("set", "endset"));
  return JinjaStmt{line, std::move(set)};
}

Result<JinjaStmt> Parser::parse_if(int line) {
  IfStmt statement;
  while (true) {
    const size_t unknown_before = unknown_.size();
    PENSTOCK_ASSIGN(JinjaExprPtr test, parse_tuple(/*with_condition=*/false));
    unknown_.resize(unknown_before);
    PENSTOCK_TRY(begin_body());
    PENSTOCK_ASSIGN(JinjaBody body,
                    parse_until("if", {"elif", "else", "endif"}, Body::kConditional));
    statement.branches.emplace_back(std::move(test), std::move(body));
    if (!take_name("elif")) break;
  }
  if (take_name("else")) {
    PENSTOCK_TRY(begin_body());
    PENSTOCK_ASSIGN(statement.otherwise, parse_until("if", {"endif"}, Body::kConditional));
  }
  take();
  return JinjaStmt{line, std::move(statement)};
}

Result<JinjaStmt> Parser::parse_for(int line) {
  ForStmt loop;
  PENSTOCK_ASSIGN(loop.target, parse_targets(/*with_attributes=*/false));
  if (!take_name("in")) return error("expected 'in', got {}", found());
  PENSTOCK_ASSIGN(loop.iterable, parse_tuple(/*with_condition=*/false));
  if (take_name("if")) {
    PENSTOCK_ASSIGN(loop.condition, parse_expression());
  }
  loop.recursive = take_name("recursive");
  PENSTOCK_TRY(begin_body());
  ++loops_;
  auto body = parse_until("for", {"endfor", "else"});
  --loops_;
  PENSTOCK_ASSIGN(loop.body, std::move(body));
  if (take_name("else")) {
    PENSTOCK_TRY(begin_body());
    PENSTOCK_ASSIGN(loop.otherwise, parse_until("for", {"endfor"}));
  }
  take();
  return JinjaStmt{line, std::move(loop)};
}

Result<void> Parser::parse_signature(JinjaMacroCode& code) {
  PENSTOCK_TRY(expect_operator("("));
  while (!is_operator(")")) {
    if (!code.parameters.empty()) PENSTOCK_TRY(expect_operator(","));
    PENSTOCK_ASSIGN(std::string name, expect_name());
    JinjaParameter parameter{name, intern(name), nullptr};
    if (std::ranges::find(code.parameters, name, &JinjaParameter::text) != code.parameters.end()) {
      return error("the parameter '{}' appears twice", name);
    }
    if (take_operator("=")) {
      PENSTOCK_ASSIGN(parameter.fallback, parse_expression());
    } else if (!code.parameters.empty() && code.parameters.back().fallback) {
      return error("non-default argument follows default argument");
    }
    code.parameters.push_back(std::move(parameter));
  }
  take();
  return {};
}

Result<void> Parser::parse_macro_body(JinjaMacroCode& code, std::string_view owner,
                                      std::string_view end) {
  PENSTOCK_TRY(begin_body());
  macros_.push_back(&code);
  auto body = parse_closed_body(owner, end);
  macros_.pop_back();
  PENSTOCK_ASSIGN(code.body, std::move(body));
  return {};
}

Result<JinjaStmt> Parser::parse_macro(int line) {
  auto code = std::make_unique<JinjaMacroCode>();
  PENSTOCK_ASSIGN(code->name, expect_name());
  const JinjaName name = intern(code->name);
  PENSTOCK_TRY(parse_signature(*code));
  PENSTOCK_TRY(parse_macro_body(*code, "macro", "endmacro"));
  return JinjaStmt{line, MacroStmt{name, std::move(code)}};
}

Result<JinjaStmt> Parser::parse_call_block(int line) {
  auto code = std::make_unique<JinjaMacroCode>();
  code->name = "caller";
  if (is_operator("(")) PENSTOCK_TRY(parse_signature(*code));
  PENSTOCK_ASSIGN(JinjaExprPtr call, parse_expression());
  if (!std::holds_alternative<CallExpr>(call->node)) return error("expected a call");
  PENSTOCK_TRY(parse_macro_body(*code, "call", "endcall"));
  return JinjaStmt{line, CallBlockStmt{std::move(code), std::move(call)}};
}

Result<JinjaStmt> Parser::parse_filter_block(int line) {
  FilterBlockStmt block{make_name(line, JinjaTemplate::kCaught), {}};
  do {
    PENSTOCK_ASSIGN(block.filter, parse_filter(std::move(block.filter)));
  } while (take_operator("|"));
  PENSTOCK_TRY(begin_body());
  PENSTOCK_ASSIGN(block.body, parse_to_end("filter", "endfilter"));
  return JinjaStmt{line, std::move(block)};
}

Result<JinjaStmt> Parser::parse_with(int line) {
  WithStmt with;
  while (peek().kind != JinjaTokenKind::kBlockEnd) {
    if (!with.variables.empty()) PENSTOCK_TRY(expect_operator(","));
    PENSTOCK_ASSIGN(JinjaTarget target, parse_targets(/*with_attributes=*/false));
    PENSTOCK_TRY(expect_operator("="));
    PENSTOCK_ASSIGN(JinjaExprPtr value, parse_expression());
    with.variables.emplace_back(std::move(target), std::move(value));
  }
  PENSTOCK_TRY(begin_body());
  PENSTOCK_ASSIGN(with.body, parse_to_end("with", "endwith"));
  return JinjaStmt{line, std::move(with)};
}

Result<JinjaStmt> Parser::parse_block(int line) {
  BlockStmt block;
  PENSTOCK_ASSIGN(block.name, expect_name());
  if (!blocks_.insert(block.name).second) return error("block '{}' defined twice", block.name);
  block.scoped = take_name("scoped");
  if (is_name("required")) return error("a required block needs a template that extends this one");
  PENSTOCK_TRY(begin_body());
  PENSTOCK_ASSIGN(block.body, parse_closed_body("block", "endblock"));
  take_name(block.name);
  return JinjaStmt{line, std::move(block)};
}

Result<JinjaStmt> Parser::parse_print_tag(int line) {
  ConcatExpr parts;
  while (peek().kind != JinjaTokenKind::kBlockEnd) {
    if (!parts.parts.empty()) PENSTOCK_TRY(expect_operator(","));
    PENSTOCK_ASSIGN(JinjaExprPtr part, parse_expression());
    parts.parts.push_back(std::move(part));
  }
  PENSTOCK_ASSIGN(JinjaExprPtr joined, make_concat(line, std::move(parts)));
  return JinjaStmt{line, PrintStmt{std::move(joined)}};
}

Result<JinjaStmt> Parser::parse_jump(const std::string& tag, int line) {
  if (loops_ == 0) return jinja_error("line {}: '{}' outside loop", line, tag);
  if (tag == "break") return JinjaStmt{line, BreakStmt{}};
  return JinjaStmt{line, ContinueStmt{}};
}

// One target, or several with commas between them.
Result<JinjaTarget> Parser::parse_targets(bool with_attributes) {
  const Nesting nesting(depth_);
  if (is_too_deep()) return too_deep();
  PENSTOCK_ASSIGN(JinjaTarget first, parse_target(with_attributes));
  if (!is_operator(",")) return first;
  JinjaTarget tuple;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(first));
  while (take_operator(",")) {
    if (is_operator(")")) break;
    PENSTOCK_ASSIGN(JinjaTarget part, parse_target(with_attributes));
    tuple.parts.push_back(std::move(part));
  }
  return tuple;
}

Result<JinjaTarget> Parser::parse_target(bool with_attributes) {
  if (take_operator("(")) {
    PENSTOCK_ASSIGN(JinjaTarget inner, parse_targets(with_attributes));
    PENSTOCK_TRY(expect_operator(")"));
    return inner;
  }
  if (peek().kind != JinjaTokenKind::kName) return error("cannot assign to {}", found());
  const std::string name = take().text;
  constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
  if (std::ranges::find(kConstants, name) != std::end(kConstants)) {
    return error("cannot assign to '{}'", name);
  }
  JinjaTarget target;
  target.name = intern(name);
  if (with_attributes && take_operator(".")) {
    PENSTOCK_ASSIGN(target.attribute, expect_name());
  } else if (!with_attributes && target.name == JinjaTemplate::kLoop) {
    return error("cannot assign to the special variable 'loop'");
  }
  return target;
}

}  // namespace

Result<std::unique_ptr<const JinjaTemplate>> parse_template(std::string_view source,
                                                            const TemplateLimits& limits) {
  PENSTOCK_ASSIGN(std::vector<JinjaToken> tokens, tokenize_template(source));
  return Parser(std::move(tokens), limits).run();
}

}  // namespace penstock
