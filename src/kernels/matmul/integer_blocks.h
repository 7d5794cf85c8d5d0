// The blocks of a panel's rows as the integer product reads them, in one struct for each layout of
// a matrix. Included by ISA files after their integer_lanes_*.h.
//
// Both have, for the block that advance() has come to,
//   kCols                  columns of a block
//   words_at(at)           the word of each row that begins at byte `at` of its block
//   halves_at(at)          the f16 there, widened
//   bytes_at(at)           the byte there, in the lowest byte of a word; any in the others
//   four_words(at, to)     the four words from there on
//   Ahead<kParts>          asks for what comes behind the panel at `row` while that is read, a
//                          block of each of its rows in kParts parts
// `at` and how much is read there are to lie in one field of tensor/interleave.h.
#pragma once

#include "kernels/matmul/prefetch_x86.h"
#include "kernels/matmul/scales_x86.h"
#include "tensor/interleave.h"

namespace penstock {
namespace {

// The panel of rows behind the one at `row`.
inline Ahead next_panel(const uint8_t* data, size_t row_bytes, int64_t row, int64_t n_parts) {
  const uint8_t* const next = data + static_cast<size_t>(row + kPanelRows) * row_bytes;
  return {next, next + kPanelRows * row_bytes, n_parts};
}

// Layout::kRows. Blocks hold their own codes one after the other, so a word of each of the rows is
// a transposition. It costs less than the sums over lanes that a row in a register would need.
template <Format format>
class RowBlocks {
 public:
  static constexpr int64_t kCols = interleaved_block(format).cols;

  RowBlocks(const uint8_t* data, size_t row_bytes, int64_t /*cols*/, int64_t row)
      : rows_(data + static_cast<size_t>(row) * row_bytes, row_bytes) {}

  template <int kParts>
  struct Ahead : penstock::Ahead {
    Ahead(const StoredRows& w, int64_t row, int64_t n_parts)
        : penstock::Ahead(next_panel(w.data, w.row_bytes, row, n_parts)) {}
  };

  [[gnu::always_inline]] Words words_at(int at) const { return row_words(rows_, at); }
  // Nothing is read behind a block, which may be the matrix' last.
  [[gnu::always_inline]] Floats halves_at(int at) const {
    return at + 4 <= kBytes ? low_halves(words_at(at))
                            : low_halves(shift_right_32(words_at(at - 2), 16));
  }
  [[gnu::always_inline]] Words bytes_at(int at) const { return words_at(at); }
  [[gnu::always_inline]] void four_words(int at, Words* to) const {
    transposed_words(
        [&](int row) __attribute__((always_inline)) { return load_16(rows_.of(row) + at); }, to);
  }
  [[gnu::always_inline]] void advance() { rows_.advance(kBytes); }

 private:
  static constexpr int kBytes = interleaved_block(format).bytes;
  PanelRows rows_;
};

// Layout::kInterleaved: the words of 16 rows lie side by side. A kernel of fewer rows takes a part
// of them.
template <Format format>
class InterleavedBlocks {
  static constexpr InterleavedBlock kBlock = interleaved_block(format);
  static constexpr int64_t kDistance = 2048;

 public:
  static constexpr int64_t kCols = interleaved_block(format).cols;

  InterleavedBlocks(const uint8_t* data, size_t row_bytes, int64_t cols, int64_t row) {
    const int64_t in_panel = row % kInterleavedRows;
    const uint8_t* const first = panel_at(data, row_bytes, row);
    for (int f = 0; f < kBlock.n_fields; ++f) {
      fields_[f] = first + kInterleavedRows * (cols / kCols) * kBlock.bytes_before(f) +
                   in_panel * kBlock.fields[f].unit;
    }
  }

  // As many bytes as a panel has, from some way behind its first codes on: the whole of the next
  // one may be more than the first cache level holds.
  template <int kParts>
  struct Ahead : EvenAhead<kInterleavedRows * kBlock.bytes / kParts> {
    Ahead(const StoredRows& w, int64_t row, int64_t /*n_parts*/)
        : EvenAhead<kInterleavedRows * kBlock.bytes / kParts>(
              panel_at(w.data, w.row_bytes, row) + kDistance +
              kInterleavedRows * (w.cols / kCols) * kBlock.bytes_before(kBlock.n_fields - 1)) {}
  };

  [[gnu::always_inline]] Words words_at(int at) const { return load_words(place(at)); }
  [[gnu::always_inline]] Floats halves_at(int at) const { return load_halves(place(at)); }
  [[gnu::always_inline]] Words bytes_at(int at) const { return load_bytes(place(at)); }
  [[gnu::always_inline]] void four_words(int at, Words* to) const {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) to[w] = words_at(at + 4 * w);
  }
  [[gnu::always_inline]] void advance() {
#pragma GCC unroll 2
    for (int f = 0; f < kBlock.n_fields; ++f) {
      fields_[f] += kInterleavedRows * kBlock.fields[f].bytes;
    }
  }

 private:
  static const uint8_t* panel_at(const uint8_t* data, size_t row_bytes, int64_t row) {
    return data + static_cast<size_t>(row / kInterleavedRows * kInterleavedRows) * row_bytes;
  }
  [[gnu::always_inline]] const uint8_t* place(int at) const {
    const int f =
        at >= kBlock.fields[0].at && at < kBlock.fields[0].at + kBlock.fields[0].bytes ? 0 : 1;
    return fields_[f] + kInterleavedRows * (at - kBlock.fields[f].at);
  }

  const uint8_t* fields_[2];
};

}  // namespace
}  // namespace penstock
