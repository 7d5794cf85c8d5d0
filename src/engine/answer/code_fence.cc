#include "engine/answer/code_fence.h"

#include "engine/answer/text_scan.h"

namespace penstock {
namespace {

constexpr size_t kMaxIndent = 3;  // spaces; more make it an indented block
constexpr size_t kLeast = 3;      // marks

}  // namespace

void CodeFence::push(char byte) {
  if (byte == '\n') return end_line();
  if (in_marks_) {
    const bool is_mark = n_marks_ > 0 ? byte == mark_ : byte == '`' || byte == '~';
    if (is_mark) {
      mark_ = byte;
      ++n_marks_;
      return;
    }
    if (n_marks_ == 0 && byte == ' ' && n_indent_ < kMaxIndent) {
      ++n_indent_;
      return;
    }
    in_marks_ = false;
  }
  blank_rest_ = blank_rest_ && is_space(byte);
  mark_in_rest_ = mark_in_rest_ || byte == mark_;
}

void CodeFence::end_line() {
  if (n_marks_ >= kLeast) {
    const bool closes = mark_ == open_mark_ && n_marks_ >= open_length_ && blank_rest_;
    if (is_open() && closes) {
      open_length_ = 0;
    } else if (!is_open() && !(mark_ == '`' && mark_in_rest_)) {
      open_mark_ = mark_;
      open_length_ = n_marks_;
    }
  }
  n_indent_ = 0;
  mark_ = 0;
  n_marks_ = 0;
  in_marks_ = true;
  blank_rest_ = true;
  mark_in_rest_ = false;
}

}  // namespace penstock
