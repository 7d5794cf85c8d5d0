// Activations as the fast class multiplies them in decode: 16-bit codes in groups with a scale
// each.
#pragma once

#include <cstdint>

#include "base/aligned.h"
#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

inline constexpr float kLargestCode = 127 * 256 + 127;  // the largest whose bytes are both <= 127
inline constexpr float kLeastMagnitude = 0x1p-100F;     // kLargestCode over it is finite
inline constexpr int64_t kInt16Group = 32;              // columns that share a scale
// Columns a kernel takes at a time: rows are padded to a multiple, with scales and sums of 0 (codes
// may be any there).
inline constexpr int64_t kInt16Span = 512;
// Rows a kernel takes at a time: there is memory for a multiple of them, whatever it holds.
inline constexpr int64_t kInt16RowGroup = 8;

// One row, as kernels read it.
struct Int16Row {
  // A code is 256 high + low, so that the processor's products of bytes can be used. Those of all
  // rows lie one behind the other.
  const int8_t* high = nullptr;  // [padded]
  const int8_t* low = nullptr;   // [padded], behind high
  // [group][of the kInt16RowGroup rows], the row's own
  const float* scales = nullptr;
  const float* sums_32 = nullptr;
  const float* sums_16 = nullptr;

  float scale(int64_t group) const { return scales[group * kInt16RowGroup]; }
  // The scale times the sum of the group's codes, and of those of half a group.
  float sum_32(int64_t group) const { return sums_32[group * kInt16RowGroup]; }
  float sum_16(int64_t half) const { return sums_16[half * kInt16RowGroup]; }
};

// For every group of 32 columns of a row (the last may be shorter):
//   m = max |x|,  scale = m / kLargestCode,
//   code = x * (kLargestCode / m) rounded to the nearest even; all 0 if m < kLeastMagnitude
// A group with an infinity or a NaN has NaN for its scale and sums, so that it spoils every
// product. The formula is the usual symmetric one; |x - scale code| is at most scale / 2, and a
// rounding. With codes of 8 bits the product would be faster, and another token than the exact
// class's the most likely in 4 % of places (docs/design.md 6a).
class Int16Rows {
 public:
  // Forgets what it held. `cols` of the rows to come.
  void resize(int64_t n_rows, int64_t cols);
  // Any split of the rows over threads and any isa give the same bits.
  void quantise(Isa isa, Rows<const float> x, Range rows);

  int64_t n_rows() const { return n_rows_; }
  int64_t cols() const { return cols_; }
  Int16Row row(int64_t i) const;

 private:
  // Where row i begins in scales_ and sums_32_, and in sums_16_.
  int64_t first_scale(int64_t i) const;
  int64_t first_half_sum(int64_t i) const;
  void pad(int64_t i);

  int64_t n_rows_ = 0, cols_ = 0, padded_ = 0;
  AlignedVector<int8_t> codes_;                      // [row][high, low][padded]
  AlignedVector<float> scales_, sums_32_, sums_16_;  // [row group][group][of the rows]
};

}  // namespace penstock
