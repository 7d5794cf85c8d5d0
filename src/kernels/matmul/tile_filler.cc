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
  if (kernels.formats[static_cast<size_t>(w.format)].fill == nullptr) return false;
  const bool one_scale_per_16 = w.group_cols % kLaneCount == 0 || w.group_cols >= w.cols;
  return w.format != Format::kFp8Block || one_scale_per_16;
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
    : w_(w), stored_(stored_rows(w)) {
  if (has_own_kernels(kernels, w)) own_ = &kernels.formats[static_cast<size_t>(w.format)];
}

void TileFiller::fill(int64_t row, int n_rows, Range cols, float* tile) const {
  if (own_ != nullptr) {
    own_->fill(stored_, row, n_rows, cols.begin, cols.end, tile);
  } else {
    fill_by_codec(w_, row, n_rows, cols, tile);
  }
}

}  // namespace penstock
