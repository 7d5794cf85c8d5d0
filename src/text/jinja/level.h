// Bounds how deeply the evaluator calls itself, and with that the stack it needs.
#pragma once

#include "base/result.h"
#include "text/jinja/limits.h"

namespace penstock {

// One more level for as long as it lives.
class JinjaLevel {
 public:
  // A macro call is a few levels (the statements and expressions around it), so real recursion
  // meets max_depth calls first. Together they stay within this many, which at the default depth
  // takes less than 2 MiB of stack (4 MiB under AddressSanitizer).
  static constexpr size_t kLevelsPerDepth = 5;

  explicit JinjaLevel(size_t& levels) : levels_(levels) { ++levels_; }
  JinjaLevel(const JinjaLevel&) = delete;
  JinjaLevel& operator=(const JinjaLevel&) = delete;
  ~JinjaLevel() { --levels_; }

  Result<void> check(const TemplateLimits& limits) const {
    if (levels_ <= limits.max_depth * kLevelsPerDepth) return {};
    return fail(ErrorKind::kExhausted,
                "calls and expressions inside each other are more than {} deep",
                limits.max_depth * kLevelsPerDepth);
  }
  Result<void> check_calls(const TemplateLimits& limits) const {
    if (levels_ <= limits.max_depth) return {};
    return fail(ErrorKind::kExhausted, "macros or loops call themselves more than {} deep",
                limits.max_depth);
  }

 private:
  size_t& levels_;
};

}  // namespace penstock
