// How much work a chat template may do: templates come with models and are not trusted.
#pragma once

#include <cstddef>

namespace penstock {

struct TemplateLimits {
  size_t max_output_bytes = size_t{16} << 20;
  // Values alive at one time, the inputs included.
  size_t max_memory_bytes = size_t{128} << 20;
  // One step is one expression or statement evaluated, one item visited, 64 bytes of text
  // copied or 16 bytes looked at character by character.
  size_t max_steps = 20'000'000;
  // Separately for: nesting of syntax, calls of macros and recursive loops inside each other, and
  // values inside values. Python's own recursion limit gives out at about the same depth.
  size_t max_depth = 200;
};

}  // namespace penstock
