// GPTQ and AWQ: 4-bit integers, eight to a 32-bit word, of the transposed matrix.
#include <array>

#include "base/check.h"
#include "tensor/codec_parts.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

// Which nibble of its word holds row n of an AWQ matrix, by n % 8.
constexpr std::array<unsigned, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};

// Nibble `nibble` of the `word`-th 32-bit word.
int nibble_at(std::span<const std::byte> words, int64_t word, unsigned nibble) {
  const auto bits = load_unaligned<uint32_t>(words.data() + 4 * word);
  return static_cast<int>((bits >> (4 * nibble)) & 15u);
}

unsigned nibble_of_row(const MatrixView& m, int64_t row) {
  const auto r = static_cast<unsigned>(row % 8);
  return m.format == Format::kAwq4 ? kAwqNibble[r] : r;
}

int code_at(const MatrixView& m, int64_t row, int64_t col) {
  if (m.format == Format::kAwq4) {
    return nibble_at(m.data, col * (m.rows / 8) + row / 8, nibble_of_row(m, row));
  }
  return nibble_at(m.data, col / 8 * m.rows + row, static_cast<unsigned>(col % 8));
}

int64_t group_of(const MatrixView& m, int64_t col) {
  if (m.groups.empty()) return col / m.group_cols;
  const int64_t group = load_unaligned<int32_t>(m.groups.data() + 4 * col);
  const int64_t n_groups = (m.cols + m.group_cols - 1) / m.group_cols;
  PENSTOCK_CHECK(group >= 0 && group < n_groups, "a GPTQ column names a group that is not there");
  return group;
}

// GPTQ's first version stores zero - 1 and a stored 15 means 16: it does not wrap to 0.
int zero_at(const MatrixView& m, int64_t group, int64_t row) {
  const int stored = nibble_at(m.zeros, group * (m.rows / 8) + row / 8, nibble_of_row(m, row));
  return stored + (m.zeros_minus_one ? 1 : 0);
}

}  // namespace

void widen_int4(const MatrixView& m, int64_t row, Range cols, float* out) {
  for (int64_t k = cols.begin; k < cols.end; ++k) {
    const int64_t group = group_of(m, k);
    const float scale =
        f16_to_f32(load_unaligned<uint16_t>(m.scales.data() + 2 * (group * m.rows + row)));
    const int q = code_at(m, row, k) - zero_at(m, group, row);
    out[k - cols.begin] = scale * static_cast<float>(q);
  }
}

}  // namespace penstock
