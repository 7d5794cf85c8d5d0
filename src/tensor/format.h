// The formats weights are stored in, and a view of one stored matrix: what every kernel, reader and
// writer speaks of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock {

// How the numbers of a matrix are laid out. The layouts are those of docs/formats.md. "Split"
// formats keep codes and scales in separate runs of bytes; ggml block formats interleave them.
enum class Format : uint8_t {
  kF32,
  kF16,
  kBF16,
  // ggml blocks
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMxfp4Block,  // GGUF's MXFP4: 17-byte blocks of 32, first half in the low nibbles
  kNvfp4Block,  // GGUF's NVFP4: 36-byte blocks of 64
  // split
  kMxfp4,     // data U8 [rows, cols/2], even column in the low nibble; scales E8M0 [rows, cols/32]
  kNvfp4,     // data U8 [rows, cols/2], even column in the low nibble; scales E4M3 [rows, cols/16];
              // `scale`
  kFp8Block,  // data E4M3 [rows, cols]; scales [ceil(rows/block_rows), ceil(cols/block_cols)] of
              // scale_format
  kFp8Tensor,   // data E4M3 [rows, cols]; `scale`
  kFp8Channel,  // data E4M3 [rows, cols]; scales [rows] of scale_format
  kGptq4,  // data I32 [cols/8, rows]; zeros I32 [n_groups, rows/8]; scales F16 [n_groups, rows];
           // maybe groups I32 [cols]; n_groups = ceil(cols/group_cols)
  kAwq4,   // data I32 [cols, rows/8]; zeros I32 [n_groups, rows/8]; scales F16 [n_groups, rows]
};
inline constexpr int kFormatCount = static_cast<int>(Format::kAwq4) + 1;

struct FormatInfo {
  std::string_view name;     // as users write it: "q4_0", "nvfp4", "fp8-block"
  uint32_t group = 1;        // columns that stand together: cols must be a multiple
  uint32_t group_bytes = 0;  // bytes of `data` for one such group of one row; 0 where a row is not
                             // contiguous (GPTQ, AWQ)
};

const FormatInfo& info(Format format);
std::optional<Format> format_from_name(std::string_view name);

// In which order the bytes of a matrix are.
enum class Layout : uint8_t {
  kRows,         // as stored: a row after the other
  kInterleaved,  // 16 rows at a time, word by word (tensor/interleave.h)
};

// How the scales of an FP8 matrix are stored.
enum class ScaleFormat : uint8_t { kF32, kBF16, kF16, kE8M0 };

// One stored matrix W [rows = out, cols = in] that computes y = W x. Owns nothing. The bytes need
// no alignment.
struct MatrixView {
  Format format = Format::kF32;
  Layout layout = Layout::kRows;
  int64_t rows = 0;
  int64_t cols = 0;
  std::span<const std::byte> data = {};
  std::span<const std::byte> scales = {};
  std::span<const std::byte> zeros = {};  // GPTQ, AWQ
  // GPTQ with act order: I32 [cols], the group of each column, in [0, n_groups).
  std::span<const std::byte> groups = {};
  ScaleFormat scale_format = ScaleFormat::kF32;
  uint32_t group_cols = 0;       // columns that share a scale: GPTQ, AWQ group; FP8 block width
  uint32_t block_rows = 0;       // FP8 block height
  bool zeros_minus_one = false;  // GPTQ v1 stores zero - 1
  float scale = 1.0F;            // multiplies the whole matrix, once, after the sum
};

// Bytes of `data` of a rows x cols matrix; nullopt when the format cannot have this shape (cols no
// multiple of the group; rows no multiple of 8 for GPTQ and AWQ; negative) or the count overflows.
std::optional<size_t> data_bytes(Format format, int64_t rows, int64_t cols);
// Bytes of `scales` for formats whose scales stand apart; 0 for the others. The shape must be one
// that data_bytes accepts, group_cols and block_rows not 0 where the format uses them.
size_t scales_bytes(const MatrixView& matrix);
// Bytes of one row of `data`; only for formats whose rows are contiguous.
size_t row_bytes(Format format, int64_t cols);

// True when the format can have this shape and every span is at least as long as it requires:
// what a reader establishes before a matrix is decoded, and kernels take for granted. The values in
// `groups` are the reader's to check too.
bool is_whole(const MatrixView& matrix);

}  // namespace penstock
