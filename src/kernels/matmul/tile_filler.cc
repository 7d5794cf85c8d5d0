#include "kernels/matmul/tile_filler.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/integers.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

const uint8_t* bytes_of(std::span<const std::byte> span) {
  return reinterpret_cast<const uint8_t*>(span.data());
}

// Whether `kernels` can unpack w.
bool has_own_kernels(const ExactKernels& kernels, const MatrixView& w) {
  const FormatKernels& of_format = kernels.formats[static_cast<size_t>(w.format)];
  if (of_format.fill == nullptr && of_format.fill_columns == nullptr) return false;
  const auto groups_are_multiples_of = [&](uint32_t n) {
    return w.group_cols % n == 0 || w.group_cols >= w.cols;
  };
  switch (w.format) {
    case Format::kFp8Block:
      return groups_are_multiples_of(kLaneCount);
    case Format::kGptq4:
    case Format::kAwq4:
      return groups_are_multiples_of(8);
    default:
      return true;
  }
}

StoredColumns columns_of(const MatrixView& w) {
  return {.words = bytes_of(w.data),
          .zeros = bytes_of(w.zeros),
          .scales = bytes_of(w.scales),
          .order = w.groups.empty() ? nullptr : bytes_of(w.groups),
          .rows = w.rows,
          .cols = w.cols,
          .group_cols = w.group_cols,
          .added_zero = w.zeros_minus_one ? 1.0F : 0.0F};
}

// FillTile through the scalar codecs.
void fill_by_codec(const MatrixView& w, int64_t row, int n_rows, Range cols, float* tile) {
  std::array<float, TileFiller::kMostCols> one_row;
  for (int r = 0; r < kTileRows; ++r) {
    const int64_t n_cols = cols.size();
    widen_columns(w, row + std::min(r, n_rows - 1), cols,
                  std::span(one_row).first(static_cast<size_t>(n_cols)));
    const int64_t whole_lanes = round_up(n_cols, kLaneCount);
    std::fill(one_row.begin() + n_cols, one_row.begin() + whole_lanes, -0.0F);
    for (int64_t k = 0; k < whole_lanes; k += kLaneCount) {
      std::copy_n(one_row.begin() + k, kLaneCount, tile + k * kTileRows + r * kLaneCount);
    }
  }
}

}  // namespace

StoredRows stored_rows(const MatrixView& w) {
  StoredRows rows{.data = bytes_of(w.data), .cols = w.cols, .scale_format = w.scale_format};
  if (info(w.format).group_bytes != 0) rows.row_bytes = row_bytes(w.format, w.cols);
  if (!w.scales.empty()) rows.scales = bytes_of(w.scales);
  switch (w.format) {
    case Format::kFp8Block:
      rows.scale_rows = w.block_rows;
      rows.scale_cols = w.group_cols;
      rows.scales_per_row = ceil_div(w.cols, w.group_cols);
      break;
    case Format::kFp8Channel:
      rows.scale_cols = w.cols;
      rows.scales_per_row = 1;
      break;
    case Format::kFp8Tensor:
      rows.scales = nullptr;
      rows.scale_cols = w.cols;
      break;
    default:
      break;
  }
  return rows;
}

TileFiller::TileFiller(const ExactKernels& kernels, const MatrixView& w)
    : w_(w), stored_(stored_rows(w)), stored_columns_(columns_of(w)) {
  if (has_own_kernels(kernels, w)) own_ = &kernels.formats[static_cast<size_t>(w.format)];
}

void TileFiller::fill_rows(Range rows, Range cols, float* tiles) const {
  if (by_columns()) {
    own_->fill_columns(stored_columns_, rows.begin, rows.size(), cols.begin, cols.end, tiles);
    return;
  }
  const int64_t tile_floats = kTileRows * round_up(cols.size(), kLaneCount);
  for (int64_t row = rows.begin; row < rows.end; row += kTileRows, tiles += tile_floats) {
    const auto n_rows = static_cast<int>(std::min<int64_t>(kTileRows, rows.end - row));
    if (own_ != nullptr) {
      own_->fill(stored_, row, n_rows, cols.begin, cols.end, tiles);
    } else {
      fill_by_codec(w_, row, n_rows, cols, tiles);
    }
  }
}

}  // namespace penstock
