// From the text of an answer to what an API's client sees: content, reasoning and tool calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/answer/answer_delta.h"
#include "engine/answer/answer_format.h"
#include "engine/answer/call_scanner.h"
#include "engine/answer/declared_tools.h"
#include "engine/answer/delta_collector.h"
#include "engine/answer/reasoning_splitter.h"

namespace penstock {

struct AnswerParserOptions {
  AnswerFormat format = {};
  DeclaredTools tools = {};       // only their calls are calls; none: markup is content
  bool opened_by_prompt = false;  // opens_reasoning()
  bool parallel_calls = true;     // false: the answer ends with its first call
  uint64_t seed = 0;              // of the calls' ids
};

// The text may come in any pieces: put together, the deltas are the same. Of pieces that are whole
// characters, so are the deltas. Thread-compatible.
//
// What is a call, and what becomes of a broken one: a call begins once a declared name has been
// read and arguments begin. Until then it may turn out to be text, all of it; from then on it is a
// call. If the answer ends before its arguments do, they stay incomplete and is_cut() says so; if
// only closing tags are missing, the call is whole. Arguments that are no JSON, and cannot be
// mended (JsonMender), are passed on as they are.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;
  ~AnswerParser();

  AnswerDelta push(std::string_view piece);
  // The answer has ended: what was held back.
  AnswerDelta finish();

  // The one call that was allowed is whole: nothing more is looked at.
  bool is_satisfied() const;
  bool has_calls() const;
  // After finish(): the last call's arguments are incomplete.
  bool is_cut() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace penstock
