// Rows<T>: a view of n_rows rows of `cols` numbers each, `stride` apart: activations and results of
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

template <class T>
struct Rows {
  T* data = nullptr;
  int64_t n_rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  T* row(int64_t i) const { return data + i * stride; }
  operator Rows<const T>() const { return {data, n_rows, cols, stride}; }
};

template <class T>
Rows<T> dense_rows(T* data, int64_t n_rows, int64_t cols) {
  return {data, n_rows, cols, cols};
}

// [begin, end): a worker's share of something.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace penstock
