// Whether a place in Markdown text lies in a fenced block of code.
#pragma once

#include <cstddef>

namespace penstock {

// Fences as CommonMark has them (spec 0.31, section 4.5): three or more backticks or tildes at the
// start of a line, closed by as many on a line of their own. Thread-compatible.
class CodeFence {
 public:
  void push(char byte);
  // After a fence's line has ended.
  bool is_open() const { return open_length_ > 0; }

 private:
  void end_line();

  char open_mark_ = 0;
  size_t open_length_ = 0;
  // Of the current line:
  size_t n_indent_ = 0;
  char mark_ = 0;
  size_t n_marks_ = 0;      // at its start
  bool in_marks_ = true;    // nothing else yet, but the indent
  bool blank_rest_ = true;  // behind the marks
  bool mark_in_rest_ = false;
};

}  // namespace penstock
