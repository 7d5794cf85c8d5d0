// How a model writes its tool calls and its thoughts: found from its chat template and tokenizer,
// or named by the user.
//
//   tool calls   the first of these of which the template names a mark; failing that, the first
//                of which the tokenizer has one as an added token
//                  mistral      [TOOL_CALLS]
//                  qwen3_coder  <function=
//                  hermes       <tool_call>
//                  llama3_json  <|python_tag|>
//   reasoning    the first of which the template names the closing tag, or the tokenizer has it
//                  think        <think> ... </think>
//                  mistral      [THINK] ... [/THINK]
//
// The template comes first because it shows the model what its earlier calls look like;
// vocabularies are inherited from models that wrote otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/answer/call_grammar.h"
#include "engine/answer/reasoning_splitter.h"

namespace penstock {

class Tokenizer;

struct AnswerFormat {
  ToolForm tools = ToolForm::kNone;
  ReasoningTags reasoning = {};

  bool operator==(const AnswerFormat&) const = default;
};

// As --tool-parser and --reasoning-parser name them: "auto", "none", and the names above.
struct AnswerFormatChoice {
  std::string tools = "auto";
  std::string reasoning = "auto";
};

// kInvalidArgument for a name that is none.
Result<AnswerFormat> choose_answer_format(const AnswerFormatChoice& choice,
                                          std::string_view template_source,
                                          const Tokenizer& tokenizer);
std::string_view tool_form_name(ToolForm form);
std::string_view reasoning_name(const ReasoningTags& tags);

// The special tokens whose text is part of the format, which a reader of answers must not leave
// out: OutputStream::create.
std::vector<int32_t> format_token_ids(const AnswerFormat& format, const Tokenizer& tokenizer);

// Whether the prompt ends, but for white space, with the tag that opens a thought: its token, where
// the tokenizer has one.
bool opens_reasoning(const ReasoningTags& tags, std::span<const int32_t> prompt,
                     const Tokenizer& tokenizer);

}  // namespace penstock
