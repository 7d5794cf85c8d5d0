// The loops every unpacker of the exact class is put through: fused with the product for a few
// tokens, or into a tile in memory. Included by ISA files after their lanes_*.h, which defines
// Lanes and kFusedTokens.
//
// An unpacker reads one row of one format from a given column on:
//   static constexpr int kCols       columns it widens at a time, a multiple of 16
//   static constexpr int kBytes      of data that these are
//   static constexpr bool kRagged    whether rows may end between multiples of kCols
//   U(const StoredRows&, row, begin) begin is a multiple of kCols
//   next(emit)                       calls emit(i, weights) for lanes i = 0 .. kCols / 16 - 1, in
//                                    order
//   last(n)                          if kRagged: the next n <= 16 columns, -0 behind them
#pragma once

#include "kernels/matmul/matmul_exact_kernels.h"
#include "kernels/matmul/repeat.h"

namespace penstock {
namespace {

template <class U>
[[gnu::always_inline]] inline U unpacker_at(const StoredRows& w, int64_t row, int n_rows, int r,
                                            int64_t begin) {
  return U(w, row + (r < n_rows ? r : n_rows - 1), begin);
}

template <class U>
void fill_tile(const StoredRows& w, int64_t row, int n_rows, int64_t begin, int64_t end,
               float* tile) {
  for (int r = 0; r < kTileRows; ++r) {
    U unpacker = unpacker_at<U>(w, row, n_rows, r, begin);
    float* to = tile + r * kLaneCount;
    constexpr int64_t kStep = kTileRows * kLaneCount;  // to the next lanes of the same row
    int64_t k = begin;
    for (; k + U::kCols <= end; k += U::kCols) {
      unpacker.next([&](int i, Lanes weights)
                        __attribute__((always_inline)) { store_lanes(to + i * kStep, weights); });
      to += U::kCols / kLaneCount * kStep;
    }
    if constexpr (U::kRagged) {
      for (; k < end; k += kLaneCount, to += kStep) {
        store_lanes(to, unpacker.last(end - k < kLaneCount ? end - k : kLaneCount));
      }
    }
  }
}

// Asks for the next n bytes of the rows that come after this tile. The hardware's own prefetch
// starts anew on every page, and four short rows are mostly beginnings.
template <int n>
[[gnu::always_inline]] inline void prefetch_next_tile(const uint8_t* at) {
#pragma GCC unroll 16
  for (int i = 0; i < n; i += 64) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T1);
}

template <class U, int T>
void multiply_rows(const StoredRows& w, int64_t row, const float* x, int64_t x_stride,
                   const TileResults& results) {
  static_assert(kTileRows == 4);
  U unpackers[kTileRows] = {
      unpacker_at<U>(w, row, results.n_rows, 0, 0), unpacker_at<U>(w, row, results.n_rows, 1, 0),
      unpacker_at<U>(w, row, results.n_rows, 2, 0), unpacker_at<U>(w, row, results.n_rows, 3, 0)};
  Lanes acc[T][kTileRows];
  repeat<T>([&](auto t) __attribute__((always_inline)) {
    repeat<kTileRows>([&](auto r)
                          __attribute__((always_inline)) { acc[t.value][r.value] = zero_lanes(); });
  });
  const int64_t cols = w.cols;
  const uint8_t* next_tile = w.data + static_cast<size_t>(row + kTileRows) * w.row_bytes;
  int64_t k = 0;
  for (; k + U::kCols <= cols; k += U::kCols) {
    prefetch_next_tile<kTileRows * U::kBytes>(next_tile);
    next_tile += kTileRows * U::kBytes;
    repeat<kTileRows>([&](auto r) __attribute__((always_inline)) {
      unpackers[r.value].next([&](int i, const Lanes& weights) __attribute__((always_inline)) {
        repeat<T>([&](auto t) __attribute__((always_inline)) {
          const Lanes tokens = load_lanes(x + t.value * x_stride + k + i * kLaneCount);
          acc[t.value][r.value] = fma_lanes(tokens, weights, acc[t.value][r.value]);
        });
      });
    });
  }
  if constexpr (U::kRagged) {
    for (; k < cols; k += kLaneCount) {
      const int64_t n = cols - k < kLaneCount ? cols - k : kLaneCount;
      repeat<kTileRows>([&](auto r) __attribute__((always_inline)) {
        const Lanes weights = unpackers[r.value].last(n);
        repeat<T>([&](auto t) __attribute__((always_inline)) {
          const Lanes tokens = load_first_lanes(x + t.value * x_stride + k, n);
          acc[t.value][r.value] = fma_lanes(tokens, weights, acc[t.value][r.value]);
        });
      });
    }
  }
  finish_tile<T>(acc, results);
}

// The kernels of one format, fused for up to `n_fused` tokens.
template <class U, int n_fused>
FormatKernels kernels_of() {
  FormatKernels kernels{.fill = fill_tile<U>};
  kernels.multiply_rows[0] = multiply_rows<U, 1>;
  if constexpr (n_fused >= 2) kernels.multiply_rows[1] = multiply_rows<U, 2>;
  if constexpr (n_fused >= 3) kernels.multiply_rows[2] = multiply_rows<U, 3>;
  if constexpr (n_fused >= 4) kernels.multiply_rows[3] = multiply_rows<U, 4>;
  return kernels;
}

template <class U>
void add_kernels(ExactKernels& kernels, Format format) {
  kernels.formats[static_cast<int>(format)] = kernels_of<U, kFusedTokens>();
}

}  // namespace
}  // namespace penstock
