// The kernels of 4-bit integers of the transposed matrix: GPTQ and AWQ (docs/formats.md). Included
// by ISA files after their columns_*.h, whose names they are written in.
//
// A column's codes lie together, so a register holds one column of kVectorRows rows. Fused, each of
// the 16 lanes of a row is a register of its own, and no weight is ever moved between lanes; for
// more tokens, kVectorRows columns at a time are transposed into tiles. Either way up to
// kMostColumnRows rows are worked on together, a few columns of all of them before the next: 64
// bytes or more of each stored line are used at once, and each line comes from memory once.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/matmul/matmul_exact_kernels.h"
#include "kernels/matmul/repeat.h"

namespace penstock {
namespace {

constexpr int64_t kOctet = 8;  // columns that are unpacked together: those of a GPTQ word

// What differs between the two is where codes lie: code<i>() has that of column k + i in the low
// four bits of each lane.
struct Gptq4 {
  static constexpr bool kRagged = false;  // whether rows may end inside an octet
  static constexpr bool kMayBeOrdered = true;
  // Of the nibbles of a word of eight rows.
  [[gnu::always_inline]] static Ints shifts() { return each_of_eight(0, 4, 8, 12, 16, 20, 24, 28); }
  static const uint8_t* at(const StoredColumns& w, int64_t row, int64_t k) {
    return w.words + 4 * (k / 8 * w.rows + row);
  }
  // Vector i of n_vectors from row `first` on asks for its share of columns [k, end).
  [[gnu::always_inline]] static void prefetch(const StoredColumns& w, int64_t first, int64_t i,
                                              int64_t, int64_t k, int64_t end) {
    for (; k < end; k += kOctet) _mm_prefetch(at(w, first + i * kVectorRows, k), _MM_HINT_T1);
  }

  Ints words;
  [[gnu::always_inline]] Gptq4(const StoredColumns& w, int64_t row, VectorRows which, int64_t k)
      : words(load_words(at(w, row, k), which)) {}
  template <int i>
  [[gnu::always_inline]] Ints code() const {
    return shift_right<4 * i>(words);
  }
};

struct Awq4 {
  static constexpr bool kRagged = true;
  static constexpr bool kMayBeOrdered = false;
  [[gnu::always_inline]] static Ints shifts() { return each_of_eight(0, 16, 4, 20, 8, 24, 12, 28); }
  static const uint8_t* at(const StoredColumns& w, int64_t row, int64_t k) {
    return w.words + 4 * (k * (w.rows / 8) + row / 8);
  }
  [[gnu::always_inline]] static void prefetch(const StoredColumns& w, int64_t first, int64_t i,
                                              int64_t n_vectors, int64_t k, int64_t end) {
    for (k += i; k < end; k += n_vectors) _mm_prefetch(at(w, first, k), _MM_HINT_T1);
  }

  const uint8_t* words;
  int64_t column_bytes;
  VectorRows which;
  [[gnu::always_inline]] Awq4(const StoredColumns& w, int64_t row, VectorRows of, int64_t k)
      : words(at(w, row, k)), column_bytes(w.rows / 2), which(of) {}
  template <int i>
  [[gnu::always_inline]] Ints code() const {
    return shift_right_by(load_words_of_eights(words + i * column_bytes, which), shifts());
  }
};

// Reads kVectorRows rows of a matrix.
template <class Layout, bool kOrdered>
class ColumnReader {
 public:
  ColumnReader(const StoredColumns& w, int64_t row) : w_(w), row_(row), which_(w.rows - row) {}

  // Calls emit(Index<i>, weights of column k + i) for i = 0 .. n - 1; k is a multiple of eight, n
  // eight or what is left of the row.
  template <class Emit>
  [[gnu::always_inline]] void read_octet(int64_t k, int64_t n, Emit emit) {
    if (!kOrdered && k >= group_end_) {
      const int64_t group = k / w_.group_cols;
      load_group(group);
      group_end_ = (group + 1) * w_.group_cols;
    }
    const Layout octet(w_, row_, which_, k);
    repeat<kOctet>([&](auto i) __attribute__((always_inline)) {
      if (Layout::kRagged && i.value >= n) return;
      if constexpr (kOrdered) load_group(group_of(k + i.value));
      emit(i, mul(sub(nibble_on_2_23(octet.template code<i.value>()), zeros_), scales_));
    });
  }

 private:
  [[gnu::always_inline]] int64_t group_of(int64_t k) const {
    int32_t group;
    std::memcpy(&group, w_.order + 4 * k, sizeof group);
    return group;
  }
  [[gnu::always_inline]] void load_group(int64_t group) {
    scales_ = load_halves(w_.scales + 2 * (group * w_.rows + row_), which_);
    const Ints words =
        load_words_of_eights(w_.zeros + 4 * (group * (w_.rows / 8) + row_ / 8), which_);
    zeros_ = add(nibble_on_2_23(shift_right_by(words, Layout::shifts())), broadcast(w_.added_zero));
  }

  const StoredColumns& w_;
  const int64_t row_;
  const VectorRows which_;
  int64_t group_end_ = 0;
  Floats scales_, zeros_;  // zeros: on 2^23, like codes
};

// Calls f(row, k, end) for vectors of rows [first, last) and short runs of columns [begin, end),
// run by run. While one run is worked on, the next is on its way from memory.
template <class Layout, class F>
[[gnu::always_inline]] inline void for_each_run(const StoredColumns& w, int64_t first, int64_t last,
                                                int64_t begin, int64_t end, F f) {
  constexpr int64_t kRunCols = 64;
  const int64_t n_vectors = (last - first + kVectorRows - 1) / kVectorRows;
  for (int64_t k = begin; k < end; k += kRunCols) {
    const int64_t next = std::min(k + kRunCols, w.cols);
    const int64_t next_end = std::min(next + kRunCols, w.cols);
    for (int64_t i = 0; i < n_vectors; ++i) {
      const int64_t row = first + i * kVectorRows;
      Layout::prefetch(w, first, i, n_vectors, next, next_end);
      f(row, k, std::min(next, end));
    }
  }
}

// See FillColumns.
template <class Layout, bool kOrdered>
void fill_columns(const StoredColumns& w, int64_t row, int64_t n_rows, int64_t begin, int64_t end,
                  float* tiles) {
  const int64_t n_steps = (end - begin + kLaneCount - 1) / kLaneCount;
  const auto place = [&](int64_t r, int64_t k) __attribute__((always_inline)) {
    return tiles + (r / kTileRows * n_steps + k / kLaneCount) * kTileRows * kLaneCount +
           r % kTileRows * kLaneCount + k % kLaneCount;
  };
  const auto fill_run = [&](int64_t at, int64_t k, int64_t stop) __attribute__((always_inline)) {
    ColumnReader<Layout, kOrdered> reader(w, at);
    const int64_t whole_lanes = begin + (stop - begin + kLaneCount - 1) / kLaneCount * kLaneCount;
    for (; k < whole_lanes; k += kVectorRows) {
      Floats weights[kVectorRows];
      repeat<kVectorRows / kOctet>([&](auto octet) __attribute__((always_inline)) {
        constexpr int kFirst = octet.value * kOctet;
        const auto keep = [&](auto i, Floats column) __attribute__((always_inline)) {
          weights[kFirst + i.value] = column;
        };
        if (k + kFirst + kOctet <= stop) return reader.read_octet(k + kFirst, kOctet, keep);
        repeat<kOctet>([&](auto i) __attribute__((always_inline)) { keep(i, broadcast(-0.0F)); });
        if (k + kFirst < stop) reader.read_octet(k + kFirst, stop - k - kFirst, keep);
      });
      transpose_floats(weights);
      repeat<kVectorRows>([&](auto i) __attribute__((always_inline)) {
        const int64_t r = at + i.value - row;
        if (r >= 0 && r < n_rows) store_floats(place(r, k - begin), weights[i.value]);
      });
    }
  };
  for_each_run<Layout>(w, row - row % kVectorRows, row + n_rows, begin, end, fill_run);
  for (int64_t r = n_rows; r % kTileRows != 0; ++r) {
    for (int64_t k = 0; k < n_steps * kLaneCount; k += kLaneCount) {
      std::memcpy(place(r, k), place(n_rows - 1, k), kLaneCount * sizeof(float));
    }
  }
}

// Adds columns k to k + 7, k + 16 to k + 23 and on, below `stop`, to their `lanes`, [8][T] of
// kVectorRows.
template <int T, class Reader>
[[gnu::always_inline]] inline void add_octets(Reader& reader, int64_t k, int64_t stop,
                                              const float* x, int64_t x_stride, float* lanes) {
  Floats acc[kOctet][T];
  const auto each = [&](auto f) __attribute__((always_inline)) {
    repeat<kOctet>([&](auto i) __attribute__((always_inline)) {
      repeat<T>([&](auto t) __attribute__((always_inline)) {
        f(acc[i.value][t.value], lanes + (i.value * T + t.value) * kVectorRows);
      });
    });
  };
  each([](Floats& sum, const float* lane)
           __attribute__((always_inline)) { sum = load_floats(lane); });
  for (; k < stop; k += kLaneCount) {
    const auto add_column = [&](auto i, Floats weights) __attribute__((always_inline)) {
      repeat<T>([&](auto t) __attribute__((always_inline)) {
        Floats& sum = acc[i.value][t.value];
        sum = mul_add(broadcast(x[t.value * x_stride + k + i.value]), weights, sum);
      });
    };
    if (k + kOctet <= stop) {
      reader.read_octet(k, kOctet, add_column);
    } else {
      reader.read_octet(k, stop - k, add_column);
    }
  }
  each([](Floats sum, float* lane) __attribute__((always_inline)) { store_floats(lane, sum); });
}

// Adds the lanes of kVectorRows rows of token t in halves and writes those rows that `out` has,
// whose first is `skipped` rows behind that of the vector.
template <int T>
inline void finish_vector(const float* lanes, int t, int64_t skipped, const TileResults& out) {
  Floats sums[kLaneCount];
#pragma GCC unroll 16
  for (int i = 0; i < kLaneCount; ++i) sums[i] = load_floats(lanes + (i * T + t) * kVectorRows);
  for (int width = kLaneCount / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] = add(sums[i], sums[i + width]);
  }
  alignas(64) float y[kVectorRows];
  store_floats(y, mul(broadcast(out.scale), sums[0]));
  for (int64_t i = 0; i < kVectorRows; ++i) {
    const int64_t r = i - skipped;
    if (r >= 0 && r < out.n_rows) out.y[t * out.stride + r] = y[i];
  }
}

// See MultiplyColumns.
template <class Layout, bool kOrdered, int T>
void multiply_columns(const StoredColumns& w, int64_t row, const float* x, int64_t x_stride,
                      float* lanes, const TileResults& results) {
  const int64_t first = row - row % kVectorRows;
  const int64_t last = row + results.n_rows;
  constexpr int64_t kHalf = kOctet * T * kVectorRows;
  const auto lanes_of = [&](int64_t at) { return lanes + (at - first) / kVectorRows * 2 * kHalf; };
  for (float* lane = lanes; lane < lanes_of(last + kVectorRows - 1); lane += kVectorRows) {
    store_floats(lane, broadcast(0.0F));
  }
  const auto multiply_run = [&](int64_t at, int64_t k,
                                int64_t stop) __attribute__((always_inline)) {
#pragma GCC unroll 1
    for (int half = 0; half < 2; ++half) {
      ColumnReader<Layout, kOrdered> reader(w, at);
      add_octets<T>(reader, k + half * kOctet, stop, x, x_stride, lanes_of(at) + half * kHalf);
    }
  };
  for_each_run<Layout>(w, first, last, 0, w.cols, multiply_run);
  for (int64_t at = first; at < last; at += kVectorRows) {
    for (int t = 0; t < T; ++t) finish_vector<T>(lanes_of(at), t, row - at, results);
  }
}

// GPTQ columns may belong to groups in any order, which takes reading scales column by column.
template <class Layout>
void fill(const StoredColumns& w, int64_t row, int64_t n_rows, int64_t begin, int64_t end,
          float* tiles) {
  if constexpr (Layout::kMayBeOrdered) {
    if (w.order != nullptr) return fill_columns<Layout, true>(w, row, n_rows, begin, end, tiles);
  }
  fill_columns<Layout, false>(w, row, n_rows, begin, end, tiles);
}
template <class Layout, int T>
void multiply(const StoredColumns& w, int64_t row, const float* x, int64_t x_stride, float* lanes,
              const TileResults& results) {
  if constexpr (Layout::kMayBeOrdered) {
    if (w.order != nullptr) {
      return multiply_columns<Layout, true, T>(w, row, x, x_stride, lanes, results);
    }
  }
  multiply_columns<Layout, false, T>(w, row, x, x_stride, lanes, results);
}

template <class Layout>
FormatKernels column_kernels() {
  FormatKernels kernels{.fill_columns = fill<Layout>};
  kernels.multiply_columns[0] = multiply<Layout, 1>;
  if constexpr (kFusedColumnTokens >= 2) kernels.multiply_columns[1] = multiply<Layout, 2>;
  return kernels;
}

}  // namespace
}  // namespace penstock
