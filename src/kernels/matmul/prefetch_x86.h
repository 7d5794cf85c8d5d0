// Weights on their way from memory, ahead of the kernels that read many rows at once. Only for ISA
// files.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "base/integers.h"

namespace penstock {
namespace {

// Bytes that will be read soon, asked for a little at a time: a core has room for few requests at
// once, and its own prefetchers do not follow many rows. A line comes into the second cache level
// first and from there into the first, which halves the time each of its requests is open (24 GB/s
// instead of 18 from two cores that read 31, Sapphire Rapids).
class Ahead {
 public:
  Ahead(const uint8_t* begin, const uint8_t* end, int64_t n_steps)
      : next_(begin), end_(end), step_(round_up(ceil_div(end - begin, n_steps), 64)) {}
  [[gnu::always_inline]] void ask() {
    const uint8_t* const until = std::min(next_ + step_, end_);
    for (; next_ < until; next_ += 64) {
      _mm_prefetch(next_, _MM_HINT_T0);
      _mm_prefetch(next_ + kFarBytes, _MM_HINT_T1);
    }
  }

 private:
  static constexpr int64_t kFarBytes = int64_t{16} * 1024;

  const uint8_t* next_;
  const uint8_t* end_;
  int64_t step_;
};

}  // namespace
}  // namespace penstock
