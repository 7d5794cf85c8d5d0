// Finds the tool calls in the text of an answer. What is no call is content, byte for byte.
#pragma once

#include <memory>
#include <string>

#include "engine/answer/call_grammar.h"
#include "engine/answer/call_reader.h"
#include "engine/answer/code_fence.h"
#include "engine/answer/declared_tools.h"
#include "engine/answer/delta_collector.h"

namespace penstock {

// A state machine over single bytes, so that it cannot matter in what pieces they come. White space
// before a call is part of it, and so is white space behind it unless text follows. In a fenced
// block of code nothing is a call. Thread-compatible; `tools` outlives this.
class CallScanner {
 public:
  CallScanner(ToolForm form, const DeclaredTools& tools)
      : grammar_(call_grammar(form)), tools_(tools) {}

  void push(char byte, DeltaCollector& out);
  void finish(DeltaCollector& out);

 private:
  // A call that does not become one within so many bytes is content.
  static constexpr size_t kMaxHeld = 256 << 10;

  enum class State : uint8_t {
    kStart,  // of the answer, but for white space
    kText,
    kOpened,  // behind an opener
    kCall,
    kAfter,  // behind a call
  };

  void push_text(char byte, DeltaCollector& out);
  void push_opened(char byte, DeltaCollector& out);
  void push_call(char byte, DeltaCollector& out);
  void push_after(char byte, DeltaCollector& out);
  void hold(char byte);
  void open();
  void begin_call(std::unique_ptr<CallReader> call);
  void give_up(DeltaCollector& out);

  const CallGrammar grammar_;
  const DeclaredTools& tools_;
  State state_ = State::kStart;
  CodeFence fence_;
  std::string held_;   // read, and neither content yet nor part of a call
  std::string token_;  // its end: the beginning of an opener or closer
  std::unique_ptr<CallReader> call_;
};

}  // namespace penstock
