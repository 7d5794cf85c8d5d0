// Weights on their way from memory, ahead of the kernels that read many rows at once. Only for ISA
// files.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "base/integers.h"

namespace penstock {
namespace {

// Weights are asked for a little at a time: a core has room for few requests at once. A line comes
// into the second cache level first and from there into the first, which halves the time each of
// its requests is open (24 GB/s instead of 18 from two cores that read 31, Sapphire Rapids).
constexpr int64_t kFarBytes = int64_t{16} * 1024;
[[gnu::always_inline]] inline void ask_for_line(const uint8_t* line) {
  _mm_prefetch(line, _MM_HINT_T0);
  _mm_prefetch(line + kFarBytes, _MM_HINT_T1);
}

// [begin, end) in n_steps times.
class Ahead {
 public:
  Ahead(const uint8_t* begin, const uint8_t* end, int64_t n_steps)
      : next_(begin), end_(end), step_(round_up(ceil_div(end - begin, n_steps), 64)) {}
  [[gnu::always_inline]] void ask() {
    const uint8_t* const until = std::min(next_ + step_, end_);
    for (; next_ < until; next_ += 64) ask_for_line(next_);
  }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
  int64_t step_;
};

// From `begin` on, so many bytes each time and every line once.
template <int64_t bytes>
class EvenAhead {
 public:
  explicit EvenAhead(const uint8_t* begin) : next_(begin), until_(begin) {}
  [[gnu::always_inline]] void ask() {
    until_ += bytes;
    for (; next_ < until_; next_ += 64) ask_for_line(next_);
  }

 private:
  const uint8_t* next_;
  const uint8_t* until_;
};

}  // namespace
}  // namespace penstock
