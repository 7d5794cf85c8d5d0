// Where the rows of a panel are read (integer_panels.h). Only for ISA files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {
namespace {

// Every fourth row has a pointer, and the three behind it are reached from there: a pointer to each
// would not stay in registers.
template <int n_rows>
class RowStarts {
 public:
  RowStarts(const uint8_t* first, size_t stride) : stride_(stride), three_strides_(3 * stride) {
    for (size_t i = 0; i < n_rows / 4; ++i) fours_[i] = first + 4 * i * stride;
  }
  [[gnu::always_inline]] const uint8_t* of(int row) const {
    const uint8_t* const four = fours_[row / 4];
    return row % 4 == 3 ? four + three_strides_ : four + static_cast<size_t>(row % 4) * stride_;
  }
  size_t stride() const { return stride_; }
  [[gnu::always_inline]] void advance(int64_t bytes) {
#pragma GCC unroll 4
    for (const uint8_t*& four : fours_) four += bytes;
  }

 private:
  const uint8_t* fours_[n_rows / 4];
  size_t stride_, three_strides_;
};

}  // namespace
}  // namespace penstock
