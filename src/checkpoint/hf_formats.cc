#include "checkpoint/hf_formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/integers.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

constexpr std::string_view kSupported =
    "F32, F16, BF16, NVFP4 (ModelOpt, compressed-tensors), MXFP4 (compressed-tensors), FP8 E4M3 "
    "(block, tensor, channel), GPTQ and AWQ with 4 bits";

Extent extent_of(const PlacedTensor& placed) {
  return {placed.file, placed.tensor.offset, placed.tensor.bytes};
}

uint64_t elements_of(const PlacedTensor& placed) {
  uint64_t n = 1;  // cannot overflow: the bytes were checked against the shape
  for (const uint64_t dim : placed.tensor.shape) n *= dim;
  return n;
}

std::optional<Format> plain_format(std::string_view dtype) {
  if (dtype == "F32") return Format::kF32;
  if (dtype == "F16") return Format::kF16;
  if (dtype == "BF16") return Format::kBF16;
  return {};
}

std::optional<ScaleFormat> scale_format(std::string_view dtype) {
  if (dtype == "F32") return ScaleFormat::kF32;
  if (dtype == "F16") return ScaleFormat::kF16;
  if (dtype == "BF16") return ScaleFormat::kBF16;
  if (dtype == "F8_E8M0") return ScaleFormat::kE8M0;
  return {};
}

float number_of(ScaleFormat format, const std::byte* bytes) {
  switch (format) {
    case ScaleFormat::kF32:
      return load_unaligned<float>(bytes);
    case ScaleFormat::kF16:
      return f16_to_f32(load_unaligned<uint16_t>(bytes));
    case ScaleFormat::kBF16:
      return bf16_to_f32(load_unaligned<uint16_t>(bytes));
    case ScaleFormat::kE8M0:
      return e8m0_to_f32(load_unaligned<uint8_t>(bytes));
  }
  return 0;
}

std::unexpected<Error> wrong_shape(const std::string& name, const PlacedTensor& placed,
                                   std::string_view format, std::string_view expected) {
  return fail(ErrorKind::kInvalidData, "tensor {} of format {} has shape [{}], expected {}", name,
              format, fmt::join(placed.tensor.shape, ", "), expected);
}

std::unexpected<Error> wrong_dtype(const std::string& name, const PlacedTensor& placed,
                                   std::string_view format, std::string_view expected) {
  return fail(ErrorKind::kInvalidData, "tensor {} of format {} has dtype {}, expected {}", name,
              format, placed.tensor.dtype, expected);
}

StoredTensor stored_as(Format format, const std::string& name, const NeededTensor& needed,
                       const PlacedTensor& data) {
  return {.source_name = name,
          .format = format,
          .rows = needed.rows,
          .cols = needed.cols,
          .data = extent_of(data)};
}

// Rows of `cols` numbers must be whole groups before shapes of packed tensors mean anything.
Result<void> check_group(const std::string& name, Format format, const NeededTensor& needed) {
  if (data_bytes(format, needed.rows, needed.cols)) return {};
  return fail(ErrorKind::kInvalidData, "tensor {} of format {} cannot be {} x {}", name,
              info(format).name, needed.rows, needed.cols);
}

}  // namespace

Result<StoredTensor> HfFormatReader::matrix(const std::string& module, const NeededTensor& needed) {
  if (has(module + ".qweight")) return int4(module, needed);
  if (has(module + ".weight_packed")) return packed(module, needed);
  const std::string name = module + ".weight";
  const PlacedTensor* weight = folder_.find(name);
  if (weight == nullptr) return fail(ErrorKind::kNotFound, "tensor {} is missing", name);
  const std::string& dtype = weight->tensor.dtype;
  if (dtype == "U8") return nvfp4(module, needed);
  if (dtype == "F8_E4M3") return fp8(module, needed);
  if (plain_format(dtype)) {
    for (const char* scale : {".weight_scale", ".weight_scale_inv"}) {
      if (!has(module + scale)) continue;
      return fail(ErrorKind::kUnsupported,
                  "tensor {} has dtype {} and yet a scale {}{}; formats that are supported: {}",
                  name, dtype, module, scale, kSupported);
    }
    return plain(name, needed);
  }
  return fail(ErrorKind::kUnsupported,
              "tensor {} has dtype {}, which is not supported for weights; formats that are: {}",
              name, dtype, kSupported);
}

Result<StoredTensor> HfFormatReader::plain(const std::string& name, const NeededTensor& needed) {
  Shape shape = {static_cast<uint64_t>(needed.rows), static_cast<uint64_t>(needed.cols)};
  if (needed.is_vector()) shape.erase(shape.begin());
  PENSTOCK_ASSIGN(const PlacedTensor* const placed, take(name, "plain numbers"));
  const auto format = plain_format(placed->tensor.dtype);
  if (!format) return wrong_dtype(name, *placed, "plain numbers", "F32, F16 or BF16");
  if (placed->tensor.shape != shape) {
    return fail(ErrorKind::kInvalidData, "tensor {} has shape [{}], but config.json makes it [{}]",
                name, fmt::join(placed->tensor.shape, ", "), fmt::join(shape, ", "));
  }
  return stored_as(*format, name, needed, *placed);
}

// Marks the tensor as used; `format` is what needs it.
Result<const PlacedTensor*> HfFormatReader::take(const std::string& name, std::string_view format) {
  const PlacedTensor* placed = folder_.find(name);
  if (placed == nullptr) {
    return fail(ErrorKind::kNotFound, "tensor {} is missing: format {} needs it", name, format);
  }
  used_.insert(name);
  return placed;
}

Result<const PlacedTensor*> HfFormatReader::take(const std::string& name, std::string_view format,
                                                 Dtypes dtypes, const Shape& shape) {
  PENSTOCK_ASSIGN(const PlacedTensor* const placed, take(name, format));
  if (std::ranges::find(dtypes, placed->tensor.dtype) == dtypes.end()) {
    return wrong_dtype(name, *placed, format, fmt::format("{}", fmt::join(dtypes, " or ")));
  }
  if (placed->tensor.shape != shape) {
    return wrong_shape(name, *placed, format, fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  return placed;
}

// One number, whatever the shape says of it.
Result<float> HfFormatReader::take_scalar(const std::string& name, std::string_view format) {
  PENSTOCK_ASSIGN(const PlacedTensor* const placed, take(name, format));
  if (elements_of(*placed) != 1) return wrong_shape(name, *placed, format, "one number");
  const auto dtype = scale_format(placed->tensor.dtype);
  if (!dtype) return wrong_dtype(name, *placed, format, "F32, F16, BF16 or F8_E8M0");
  std::array<std::byte, 4> bytes = {};
  PENSTOCK_TRY(folder_.files[placed->file].read_exact(
      placed->tensor.offset, std::span(bytes).first(placed->tensor.bytes)));
  const float value = number_of(*dtype, bytes.data());
  if (std::isfinite(value)) return value;
  return fail(ErrorKind::kInvalidData, "tensor {} of format {} holds {}, expected a finite number",
              name, format, value);
}

// ModelOpt: W = code * weight_scale * weight_scale_2.
Result<StoredTensor> HfFormatReader::nvfp4(const std::string& module, const NeededTensor& needed) {
  constexpr std::string_view kName = "nvfp4 (ModelOpt)";
  const auto rows = static_cast<uint64_t>(needed.rows);
  const auto cols = static_cast<uint64_t>(needed.cols);
  const std::string name = module + ".weight";
  PENSTOCK_TRY(check_group(name, Format::kNvfp4, needed));
  PENSTOCK_ASSIGN(const auto* data, take(name, kName, {"U8"}, {rows, cols / 2}));
  PENSTOCK_ASSIGN(const auto* scales,
                  take(module + ".weight_scale", kName, {"F8_E4M3"}, {rows, cols / 16}));
  if (has(module + ".pre_quant_scale")) {
    return fail(ErrorKind::kUnsupported,
                "tensor {}.pre_quant_scale: format {} with scaled inputs (NVFP4_AWQ) is not "
                "supported",
                module, kName);
  }
  StoredTensor stored = stored_as(Format::kNvfp4, name, needed, *data);
  stored.scales = extent_of(*scales);
  PENSTOCK_ASSIGN(stored.scale, take_scalar(module + ".weight_scale_2", kName));
  return stored;
}

// compressed-tensors: NVFP4 with E4M3 scales and a divisor for the whole, MXFP4 with E8M0 scales.
Result<StoredTensor> HfFormatReader::packed(const std::string& module, const NeededTensor& needed) {
  const auto rows = static_cast<uint64_t>(needed.rows);
  const auto cols = static_cast<uint64_t>(needed.cols);
  const std::string name = module + ".weight_packed";
  const PlacedTensor& weight = *folder_.find(name);
  if (weight.tensor.dtype != "U8") {
    return fail(ErrorKind::kUnsupported,
                "tensor {} has dtype {}: integers packed by compressed-tensors are not supported; "
                "formats that are: {}",
                name, weight.tensor.dtype, kSupported);
  }
  const PlacedTensor* scale = folder_.find(module + ".weight_scale");
  const bool is_nvfp4 = scale == nullptr || scale->tensor.dtype == "F8_E4M3";
  const Format format = is_nvfp4 ? Format::kNvfp4 : Format::kMxfp4;
  const std::string_view kName =
      is_nvfp4 ? "nvfp4 (compressed-tensors)" : "mxfp4 (compressed-tensors)";
  PENSTOCK_TRY(check_group(name, format, needed));
  PENSTOCK_ASSIGN(const auto* data, take(name, kName, {"U8"}, {rows, cols / 2}));
  StoredTensor stored = stored_as(format, name, needed, *data);
  if (!is_nvfp4) {
    PENSTOCK_ASSIGN(scale,
                    take(module + ".weight_scale", kName, {"U8", "F8_E8M0"}, {rows, cols / 32}));
    stored.scales = extent_of(*scale);
    return stored;
  }
  PENSTOCK_ASSIGN(scale, take(module + ".weight_scale", kName, {"F8_E4M3"}, {rows, cols / 16}));
  stored.scales = extent_of(*scale);
  const std::string global = module + ".weight_global_scale";
  PENSTOCK_ASSIGN(const float divisor, take_scalar(global, kName));
  stored.scale = 1.0F / divisor;
  if (std::isfinite(stored.scale)) return stored;
  return fail(ErrorKind::kInvalidData, "tensor {} of format {} is {}, expected a divisor", global,
              kName, divisor);
}

Result<StoredTensor> HfFormatReader::fp8(const std::string& module, const NeededTensor& needed) {
  const std::string name = module + ".weight";
  PENSTOCK_ASSIGN(const auto* data,
                  take(name, "fp8", {"F8_E4M3"},
                       {static_cast<uint64_t>(needed.rows), static_cast<uint64_t>(needed.cols)}));
  StoredTensor stored = stored_as(Format::kFp8Block, name, needed, *data);
  const bool is_inverse = has(module + ".weight_scale_inv");
  PENSTOCK_TRY(fp8_scales(module + (is_inverse ? ".weight_scale_inv" : ".weight_scale"), stored));
  return stored;
}

// One scale for the tensor, for each row, or for each block: told by the shape. "_inv" multiplies
// like the others.
Result<void> HfFormatReader::fp8_scales(const std::string& name, StoredTensor& stored) {
  PENSTOCK_ASSIGN(const PlacedTensor* const scales, take(name, "fp8"));
  const auto format = scale_format(scales->tensor.dtype);
  if (!format) return wrong_dtype(name, *scales, "fp8", "F32, F16, BF16 or F8_E8M0");
  stored.scale_format = *format;
  stored.scales = extent_of(*scales);
  const auto rows = static_cast<uint64_t>(stored.rows);
  const Shape grid = {ceil_div(rows, quantization_.block_rows),
                      ceil_div(static_cast<uint64_t>(stored.cols), quantization_.block_cols)};
  const Shape& shape = scales->tensor.shape;
  if (shape == grid && (name.ends_with("_inv") || elements_of(*scales) > 1)) {
    stored.block_rows = quantization_.block_rows;
    stored.group_cols = quantization_.block_cols;
    return {};
  }
  if (elements_of(*scales) == 1) {
    stored.format = Format::kFp8Tensor;
    stored.scales = {};
    stored.scale_format = ScaleFormat::kF32;
    PENSTOCK_ASSIGN(stored.scale, take_scalar(name, "fp8"));
    return {};
  }
  if (shape == Shape{rows} || shape == Shape{rows, 1}) {
    stored.format = Format::kFp8Channel;
    return {};
  }
  return wrong_shape(name, *scales, "fp8",
                     fmt::format("one number, [{}] or [{}]", rows, fmt::join(grid, ", ")));
}

// GPTQ packs eight rows of the transposed matrix into a word, AWQ eight columns.
Result<StoredTensor> HfFormatReader::int4(const std::string& module, const NeededTensor& needed) {
  const std::string name = module + ".qweight";
  const bool is_gptq = quantization_.method == "gptq";
  if (!is_gptq && quantization_.method != "awq") {
    return fail(ErrorKind::kUnsupported,
                "tensor {} is GPTQ or AWQ, but \"quant_method\" is \"{}\", expected one of them",
                name, quantization_.method);
  }
  const Format format = is_gptq ? Format::kGptq4 : Format::kAwq4;
  const std::string_view kName = info(format).name;
  const auto rows = static_cast<uint64_t>(needed.rows);
  const auto cols = static_cast<uint64_t>(needed.cols);
  const uint64_t group =
      quantization_.group_size < 0 ? cols : static_cast<uint64_t>(quantization_.group_size);
  const uint64_t n_groups = ceil_div(cols, group);
  PENSTOCK_TRY(check_group(name, format, needed));
  PENSTOCK_ASSIGN(const auto* data, take(name, kName, {"I32"},
                                         is_gptq ? Shape{cols / 8, rows} : Shape{cols, rows / 8}));
  PENSTOCK_ASSIGN(const auto* zeros,
                  take(module + ".qzeros", kName, {"I32"}, {n_groups, rows / 8}));
  PENSTOCK_ASSIGN(const auto* scales, take(module + ".scales", kName, {"F16"}, {n_groups, rows}));
  StoredTensor stored = stored_as(format, name, needed, *data);
  stored.zeros = extent_of(*zeros);
  stored.scales = extent_of(*scales);
  stored.scale_format = ScaleFormat::kF16;
  stored.group_cols = static_cast<uint32_t>(group);
  stored.zeros_minus_one = is_gptq && quantization_.zeros_minus_one;
  const std::string order = module + ".g_idx";
  if (is_gptq && (quantization_.act_order || has(order))) {
    PENSTOCK_ASSIGN(const auto* groups, take(order, kName, {"I32"}, {cols}));
    // Without act order the file repeats what the group size says.
    if (!quantization_.act_order) return stored;
    PENSTOCK_TRY(check_order(order, *groups, n_groups));
    stored.groups = extent_of(*groups);
  }
  return stored;
}

// Kernels index scales by these numbers, so none may lead outside.
Result<void> HfFormatReader::check_order(const std::string& name, const PlacedTensor& groups,
                                         uint64_t n_groups) const {
  std::vector<int32_t> of_column(groups.tensor.bytes / sizeof(int32_t));
  PENSTOCK_TRY(folder_.files[groups.file].read_exact(groups.tensor.offset,
                                                     std::as_writable_bytes(std::span(of_column))));
  for (const int32_t group : of_column) {
    if (group >= 0 && static_cast<uint64_t>(group) < n_groups) continue;
    return fail(ErrorKind::kInvalidData,
                "tensor {} of format gptq4 holds group {}, expected 0 to {}", name, group,
                n_groups - 1);
  }
  return {};
}

}  // namespace penstock
