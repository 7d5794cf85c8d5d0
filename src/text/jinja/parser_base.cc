#include "text/jinja/parser_base.h"

#include "text/jinja/printing.h"

namespace penstock {

JinjaParserBase::JinjaParserBase(std::vector<JinjaToken> tokens, const TemplateLimits& limits)
    : limits_(limits), result_(std::make_unique<JinjaTemplate>()), tokens_(std::move(tokens)) {
  for (JinjaName id = 0; id < result_->names.size(); ++id) ids_.emplace(result_->names[id], id);
}

const JinjaToken& JinjaParserBase::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const JinjaToken& JinjaParserBase::take() {
  const JinjaToken& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool JinjaParserBase::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

bool JinjaParserBase::take_operator(std::string_view symbol) {
  if (!is_operator(symbol)) return false;
  take();
  return true;
}

Result<void> JinjaParserBase::expect_operator(std::string_view symbol) {
  if (!take_operator(symbol)) return error("expected '{}', got {}", symbol, found());
  return {};
}

Result<std::string> JinjaParserBase::expect_name() {
  if (peek().kind != JinjaTokenKind::kName) return error("expected a name, got {}", found());
  return take().text;
}

std::unexpected<Error> JinjaParserBase::too_deep() const {
  return fail(ErrorKind::kExhausted, "line {}: syntax is nested more than {} deep", peek().line,
              limits_.max_depth);
}

std::string JinjaParserBase::found() const {
  switch (peek().kind) {
    case JinjaTokenKind::kVariableEnd:
      return "the end of the expression";
    case JinjaTokenKind::kBlockEnd:
      return "the end of the tag";
    case JinjaTokenKind::kEnd:
      return "the end of the template";
    case JinjaTokenKind::kString:
      return "the string " + py_quoted(peek().text);
    default:
      return "'" + peek().text + "'";
  }
}

JinjaName JinjaParserBase::intern(std::string_view name) {
  const auto [entry, is_new] =
      ids_.try_emplace(std::string(name), static_cast<JinjaName>(result_->names.size()));
  if (is_new) result_->names.emplace_back(name);
  return entry->second;
}

}  // namespace penstock
