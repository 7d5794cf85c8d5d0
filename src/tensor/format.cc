#include "tensor/format.h"

#include <array>

#include "base/check.h"
#include "base/integers.h"
#include "tensor/interleave.h"

namespace penstock {
namespace {

// In the order of Format.
constexpr std::array<FormatInfo, kFormatCount> kFormats = {{
    {"f32", 1, 4},           {"f16", 1, 2},         {"bf16", 1, 2},       {"q4_0", 32, 18},
    {"q4_1", 32, 20},        {"q5_0", 32, 22},      {"q5_1", 32, 24},     {"q8_0", 32, 34},
    {"q2_k", 256, 84},       {"q3_k", 256, 110},    {"q4_k", 256, 144},   {"q5_k", 256, 176},
    {"q6_k", 256, 210},      {"iq4_nl", 32, 18},    {"iq4_xs", 256, 136}, {"mxfp4-block", 32, 17},
    {"nvfp4-block", 64, 36}, {"mxfp4", 32, 16},     {"nvfp4", 16, 8},     {"fp8-block", 1, 1},
    {"fp8-tensor", 1, 1},    {"fp8-channel", 1, 1}, {"gptq4", 8, 0},      {"awq4", 1, 0},
}};
constexpr uint32_t kInt4PerWord = 8;

bool is_transposed_int4(Format format) {
  return format == Format::kGptq4 || format == Format::kAwq4;
}

// Parts of `part` numbers that n make.
size_t n_parts(int64_t n, uint32_t part) { return ceil_div(static_cast<size_t>(n), part); }

size_t element_bytes(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kF32:
      return 4;
    case ScaleFormat::kBF16:
    case ScaleFormat::kF16:
      return 2;
    case ScaleFormat::kE8M0:
      return 1;
  }
  return 0;
}

bool needs_group_cols(Format format) {
  return is_transposed_int4(format) || format == Format::kFp8Block;
}

size_t zeros_bytes(const MatrixView& m) {
  if (!is_transposed_int4(m.format)) return 0;
  return n_parts(m.cols, m.group_cols) * static_cast<size_t>(m.rows) / kInt4PerWord * 4;
}

}  // namespace

const FormatInfo& info(Format format) { return kFormats[static_cast<size_t>(format)]; }

std::optional<Format> format_from_name(std::string_view name) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].name == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

std::optional<size_t> data_bytes(Format format, int64_t rows, int64_t cols) {
  const FormatInfo& f = info(format);
  if (rows < 0 || cols < 0 || cols % f.group != 0) return std::nullopt;
  size_t n = static_cast<size_t>(rows);
  if (is_transposed_int4(format)) {
    if (rows % kInt4PerWord != 0) return std::nullopt;
    if (__builtin_mul_overflow(n, static_cast<size_t>(cols), &n)) return std::nullopt;
    return n / 2;
  }
  if (__builtin_mul_overflow(n, static_cast<size_t>(cols) / f.group, &n)) return std::nullopt;
  if (__builtin_mul_overflow(n, size_t{f.group_bytes}, &n)) return std::nullopt;
  return n;
}

size_t scales_bytes(const MatrixView& m) {
  const auto rows = static_cast<size_t>(m.rows);
  const auto cols = static_cast<size_t>(m.cols);
  switch (m.format) {
    case Format::kMxfp4:
    case Format::kNvfp4:
      return rows * (cols / info(m.format).group);
    case Format::kFp8Block:
      return n_parts(m.rows, m.block_rows) * n_parts(m.cols, m.group_cols) *
             element_bytes(m.scale_format);
    case Format::kFp8Channel:
      return rows * element_bytes(m.scale_format);
    case Format::kGptq4:
    case Format::kAwq4:
      return n_parts(m.cols, m.group_cols) * rows * element_bytes(ScaleFormat::kF16);
    default:
      return 0;
  }
}

size_t row_bytes(Format format, int64_t cols) {
  const FormatInfo& f = info(format);
  PENSTOCK_CHECK(f.group_bytes != 0, "rows of this format are not contiguous");
  return static_cast<size_t>(cols) / f.group * f.group_bytes;
}

bool is_whole(const MatrixView& m) {
  const auto bytes = data_bytes(m.format, m.rows, m.cols);
  if (!bytes || m.data.size() < *bytes) return false;
  if (needs_group_cols(m.format) && m.group_cols == 0) return false;
  if (m.format == Format::kFp8Block && m.block_rows == 0) return false;
  if (m.format == Format::kGptq4 && !m.groups.empty() &&
      m.groups.size() / 4 < static_cast<size_t>(m.cols)) {
    return false;
  }
  if (m.layout == Layout::kInterleaved && !has_interleaved_shape(m)) return false;
  return m.scales.size() >= scales_bytes(m) && m.zeros.size() >= zeros_bytes(m);
}

}  // namespace penstock
