#include "engine/answer/answer_format.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/answer/text_scan.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

struct ToolRow {
  std::string_view name;
  ToolForm form;
  std::string_view mark;
};
constexpr std::array<ToolRow, 4> kToolRows = {{
    {"mistral", ToolForm::kMistral, "[TOOL_CALLS]"},
    {"qwen3_coder", ToolForm::kQwen3Coder, "<function="},
    {"hermes", ToolForm::kHermes, "<tool_call>"},
    {"llama3_json", ToolForm::kLlama3, "<|python_tag|>"},
}};

struct ReasoningRow {
  std::string_view name;
  ReasoningTags tags;
};
constexpr std::array<ReasoningRow, 2> kReasoningRows = {{
    {"think", {"<think>", "</think>"}},
    {"mistral", {"[THINK]", "[/THINK]"}},
}};

// Other special tokens that stand inside calls.
constexpr std::array<std::string_view, 3> kInnerMarks = {"</tool_call>", "[ARGS]", "[CALL_ID]"};

ToolForm find_tool_form(std::string_view template_source, const Tokenizer& tokenizer) {
  for (const ToolRow& row : kToolRows) {
    if (template_source.find(row.mark) != std::string_view::npos) return row.form;
  }
  for (const ToolRow& row : kToolRows) {
    if (tokenizer.token_id(row.mark)) return row.form;
  }
  return ToolForm::kNone;
}

ReasoningTags find_reasoning(std::string_view template_source, const Tokenizer& tokenizer) {
  for (const ReasoningRow& row : kReasoningRows) {
    const bool in_template = template_source.find(row.tags.close) != std::string_view::npos;
    if (in_template || tokenizer.token_id(row.tags.close)) return row.tags;
  }
  return {};
}

template <class Rows>
std::unexpected<Error> unknown_name(std::string_view flag, std::string_view name,
                                    const Rows& rows) {
  std::string known = "auto, none";
  for (const auto& row : rows) known += fmt::format(", {}", row.name);
  return fail(ErrorKind::kInvalidArgument, "{} is \"{}\", but must be one of {}", flag, name,
              known);
}

}  // namespace

Result<AnswerFormat> choose_answer_format(const AnswerFormatChoice& choice,
                                          std::string_view template_source,
                                          const Tokenizer& tokenizer) {
  AnswerFormat format;
  if (choice.tools == "auto") {
    format.tools = find_tool_form(template_source, tokenizer);
  } else if (choice.tools != "none") {
    const auto row = std::ranges::find(kToolRows, choice.tools, &ToolRow::name);
    if (row == kToolRows.end()) return unknown_name("--tool-parser", choice.tools, kToolRows);
    format.tools = row->form;
  }
  if (choice.reasoning == "auto") {
    format.reasoning = find_reasoning(template_source, tokenizer);
  } else if (choice.reasoning != "none") {
    const auto row = std::ranges::find(kReasoningRows, choice.reasoning, &ReasoningRow::name);
    if (row == kReasoningRows.end()) {
      return unknown_name("--reasoning-parser", choice.reasoning, kReasoningRows);
    }
    format.reasoning = row->tags;
  }
  return format;
}

std::string_view tool_form_name(ToolForm form) {
  const auto row = std::ranges::find(kToolRows, form, &ToolRow::form);
  return row == kToolRows.end() ? "none" : row->name;
}

std::string_view reasoning_name(const ReasoningTags& tags) {
  const auto row = std::ranges::find(kReasoningRows, tags, &ReasoningRow::tags);
  return row == kReasoningRows.end() ? "none" : row->name;
}

std::vector<int32_t> format_token_ids(const AnswerFormat& format, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view text) {
    const auto id = tokenizer.token_id(text);
    if (id && tokenizer.is_special(*id)) ids.push_back(*id);
  };
  if (format.tools != ToolForm::kNone) {
    for (const std::string_view opener : call_grammar(format.tools).openers) add(opener);
    for (const std::string_view mark : kInnerMarks) add(mark);
  }
  if (!format.reasoning.open.empty()) {
    add(format.reasoning.open);
    add(format.reasoning.close);
  }
  return ids;
}

bool opens_reasoning(const ReasoningTags& tags, std::span<const int32_t> prompt,
                     const Tokenizer& tokenizer) {
  if (tags.open.empty()) return false;
  constexpr size_t kTail = 32;  // tokens: more than the tag has, and line ends behind it
  const auto tail = prompt.last(std::min(prompt.size(), kTail));
  const std::string text = tokenizer.decode(tail, /*skip_special=*/false);
  std::string_view shown = text;
  while (!shown.empty() && is_space(shown.back())) shown.remove_suffix(1);
  if (!shown.ends_with(tags.open)) return false;
  // In a message, the tag's text is spelt with other tokens.
  const auto id = tokenizer.token_id(tags.open);
  return !id || std::ranges::find(tail, *id) != tail.end();
}

}  // namespace penstock
