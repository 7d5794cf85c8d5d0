#include "tensor/interleave.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace penstock {
namespace {

constexpr auto kPanelRows = static_cast<size_t>(kInterleavedRows);

// One run of a matrix, data or scales: where the bytes of its blocks are in either layout.
struct Run {
  InterleavedBlock block;
  size_t n_blocks = 0;  // of a row

  size_t row_bytes() const { return n_blocks * static_cast<size_t>(block.bytes); }
  size_t panel_bytes() const { return kPanelRows * row_bytes(); }

  // Calls copy(place in a panel, row, place in that row, bytes) for every unit of rows [begin,
  // end).
  template <class Copy>
  void for_each_unit(Range rows, Copy copy) const {
    for (int f = 0; f < block.n_fields; ++f) {
      switch (block.fields[f].unit) {
        case 1:
          for_each_unit_of<1>(f, rows, copy);
          break;
        case 2:
          for_each_unit_of<2>(f, rows, copy);
          break;
        default:
          for_each_unit_of<4>(f, rows, copy);
      }
    }
  }

 private:
  template <size_t unit, class Copy>
  void for_each_unit_of(int f, Range rows, Copy copy) const {
    const InterleavedField& field = block.fields[f];
    const auto block_bytes = static_cast<size_t>(block.bytes);
    const auto units = static_cast<size_t>(field.bytes) / unit;
    size_t in_panel = kPanelRows * n_blocks * static_cast<size_t>(block.bytes_before(f));
    for (size_t b = 0; b < n_blocks; ++b) {
      for (size_t u = 0; u < units; ++u, in_panel += kPanelRows * unit) {
        const size_t in_row = b * block_bytes + static_cast<size_t>(field.at) + u * unit;
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          copy(in_panel + static_cast<size_t>(r) * unit, r, in_row,
               std::integral_constant<size_t, unit>());
        }
      }
    }
  }
};

size_t n_blocks(const MatrixView& matrix) {
  return static_cast<size_t>(matrix.cols / interleaved_block(matrix.format).cols);
}
Run data_run(const MatrixView& m) { return {interleaved_block(m.format), n_blocks(m)}; }
Run scales_run(const MatrixView& m) { return {interleaved_scales(m.format), n_blocks(m)}; }

void interleave_run(const Run& run, size_t n_panels, std::span<std::byte> bytes) {
  if (run.block.cols == 0) return;
  std::vector<std::byte> rows(run.panel_bytes());
  for (size_t i = 0; i < n_panels; ++i) {
    std::byte* const panel = bytes.data() + i * run.panel_bytes();
    std::copy_n(panel, run.panel_bytes(), rows.data());
    run.for_each_unit({0, kInterleavedRows}, [&](size_t at, int64_t row, size_t in_row, auto unit) {
      std::memcpy(panel + at, rows.data() + static_cast<size_t>(row) * run.row_bytes() + in_row,
                  unit);
    });
  }
}

// Returns what of `to` was written.
std::span<const std::byte> take_rows(const Run& run, std::span<const std::byte> bytes, Range rows,
                                     std::span<std::byte> to) {
  if (run.block.cols == 0) return {};
  const size_t n_bytes = static_cast<size_t>(rows.size()) * run.row_bytes();
  PENSTOCK_CHECK(to.size() >= n_bytes, "no room for the rows");
  std::byte* target = to.data();
  for (int64_t row = rows.begin; row < rows.end;) {
    const int64_t first = row / kInterleavedRows * kInterleavedRows;
    const Range in_panel = {row - first, std::min(rows.end - first, kInterleavedRows)};
    const std::byte* const panel = bytes.data() + static_cast<size_t>(first) * run.row_bytes();
    run.for_each_unit(in_panel, [&](size_t at, int64_t r, size_t in_row, auto unit) {
      const auto i = static_cast<size_t>(r - in_panel.begin);
      std::memcpy(target + i * run.row_bytes() + in_row, panel + at, unit);
    });
    target += static_cast<size_t>(in_panel.size()) * run.row_bytes();
    row = first + in_panel.end;
  }
  return to.first(n_bytes);
}

}  // namespace

bool has_interleaved_shape(const MatrixView& matrix) {
  const InterleavedBlock block = interleaved_block(matrix.format);
  return block.cols != 0 && matrix.rows > 0 && matrix.rows % kInterleavedRows == 0 &&
         matrix.cols % block.cols == 0;
}

void interleave(const MatrixView& matrix, std::span<std::byte> data, std::span<std::byte> scales) {
  PENSTOCK_CHECK(matrix.layout == Layout::kRows && has_interleaved_shape(matrix),
                 "the matrix cannot be interleaved");
  PENSTOCK_CHECK(data.size() >= data_bytes(matrix.format, matrix.rows, matrix.cols).value() &&
                     scales.size() >= scales_bytes(matrix),
                 "the matrix lacks bytes");
  const auto n_panels = static_cast<size_t>(matrix.rows / kInterleavedRows);
  interleave_run(data_run(matrix), n_panels, data);
  interleave_run(scales_run(matrix), n_panels, scales);
}

MatrixView rows_of(const MatrixView& matrix, Range rows, std::span<std::byte> data,
                   std::span<std::byte> scales) {
  PENSTOCK_CHECK(matrix.layout == Layout::kInterleaved, "the matrix is stored by rows");
  PENSTOCK_CHECK(rows.begin >= 0 && rows.end <= matrix.rows, "rows outside the matrix");
  MatrixView taken = matrix;
  taken.layout = Layout::kRows;
  taken.rows = rows.size();
  taken.data = take_rows(data_run(matrix), matrix.data, rows, data);
  taken.scales = take_rows(scales_run(matrix), matrix.scales, rows, scales);
  return taken;
}

}  // namespace penstock
