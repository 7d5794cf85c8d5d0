// Collects what the parts of an answer's parser find, until the reader takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/answer/answer_delta.h"

namespace penstock {

// Where the ids of calls come from: the same seed gives the same ids.
struct CallIds {
  uint64_t seed = 0;
  std::string_view prefix = "call_";  // before nine letters and digits

  std::string make(size_t index) const;
};

// Thread-compatible.
class DeltaCollector {
 public:
  explicit DeltaCollector(CallIds ids) : ids_(ids) {}

  void reasoning(std::string_view text) { delta_.reasoning += text; }
  void content(std::string_view text) { delta_.content += text; }

  // A call, its arguments in pieces, and its end, which only a whole call has.
  void begin_call(std::string_view name);
  void arguments(std::string_view json);
  void end_call() { in_call_ = false; }

  AnswerDelta take();

  size_t n_calls() const { return n_calls_; }
  bool in_call() const { return in_call_; }

 private:
  CallIds ids_;
  AnswerDelta delta_;
  size_t n_calls_ = 0;
  bool in_call_ = false;
};

}  // namespace penstock
