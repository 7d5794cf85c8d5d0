// A stored tensor as the kernels see it, once its bytes are somewhere in memory.
#pragma once

#include "checkpoint/checkpoint.h"
#include "tensor/format.h"

namespace penstock {

// bytes_of(extent): where that run of the checkpoint's bytes is. Empty extents are not asked for.
template <class F>
MatrixView matrix_of(const StoredTensor& tensor, F bytes_of) {
  const auto view = [&](const Extent& extent) {
    return extent.bytes == 0 ? std::span<const std::byte>{} : bytes_of(extent);
  };
  return MatrixView{.format = tensor.format,
                    .rows = tensor.rows,
                    .cols = tensor.cols,
                    .data = view(tensor.data),
                    .scales = view(tensor.scales),
                    .zeros = view(tensor.zeros),
                    .groups = view(tensor.groups),
                    .scale_format = tensor.scale_format,
                    .group_cols = tensor.group_cols,
                    .block_rows = tensor.block_rows,
                    .zeros_minus_one = tensor.zeros_minus_one,
                    .scale = tensor.scale};
}

}  // namespace penstock
