#include "tensor/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace penstock {
namespace {

constexpr size_t kGgmlGroup = 32;  // q8_0, q4_0
constexpr size_t kMxfp4Group = 32;
constexpr size_t kNvfp4Group = 16;
constexpr float kLargestE2M1 = 6.0F;
constexpr float kLargestE4M3 = 448.0F;
constexpr float kSmallestE4M3 = 0x1p-9F;

float largest_magnitude(std::span<const float> values) {
  float amax = 0.0F;
  for (const float value : values) amax = std::max(amax, std::fabs(value));
  return amax;
}

// A group's step as float16, and what to multiply by to count in it: both 0 when the step is so
// small that float32 cannot hold its reciprocal.
struct Step {
  uint16_t half = 0;
  float inverse = 0.0F;
};

Result<Step> step_of(float step) {
  const auto half = static_cast<_Float16>(step);
  if (std::isinf(static_cast<float>(half))) {
    return fail(ErrorKind::kInvalidData, "a group needs the step {}, beyond float16's 65504", step);
  }
  const float inverse = 1.0F / step;
  return Step{.half = std::bit_cast<uint16_t>(half),
              .inverse = std::isfinite(inverse) ? inverse : 0.0F};
}

void put_u16(std::byte* out, uint16_t value) { std::memcpy(out, &value, sizeof value); }

// d = amax / 127, codes round half away from zero.
Result<void> encode_q8_0(std::span<const float> group, std::byte* block) {
  PENSTOCK_ASSIGN(const Step step, step_of(largest_magnitude(group) / 127.0F));
  put_u16(block, step.half);
  for (size_t i = 0; i < kGgmlGroup; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(group[i] * step.inverse)));
  }
  return {};
}

// d = (the element of largest magnitude) / -8, so that this element is exactly code 0.
Result<void> encode_q4_0(std::span<const float> group, std::byte* block) {
  const float extreme = *std::ranges::max_element(group, {}, [](float x) { return std::fabs(x); });
  PENSTOCK_ASSIGN(const Step step, step_of(extreme / -8.0F));
  put_u16(block, step.half);
  const auto code = [&](float x) {
    return static_cast<uint8_t>(std::clamp(std::trunc(x * step.inverse + 8.5F), 0.0F, 15.0F));
  };
  for (size_t i = 0; i < kGgmlGroup / 2; ++i) {
    block[2 + i] = static_cast<std::byte>(code(group[i]) | code(group[i + kGgmlGroup / 2]) << 4);
  }
  return {};
}

// The e2m1 code nearest to value / scale: the number of midpoints passed. A value on a midpoint
// goes to the even code, so every second comparison includes it.
uint8_t e2m1_code(float value, float scale) {
  const float a = std::fabs(value) / scale;
  const int code = static_cast<int>(a > 0.25F) + static_cast<int>(a >= 0.75F) +
                   static_cast<int>(a > 1.25F) + static_cast<int>(a >= 1.75F) +
                   static_cast<int>(a > 2.5F) + static_cast<int>(a >= 3.5F) +
                   static_cast<int>(a > 5.0F);
  return static_cast<uint8_t>(code | (value < 0.0F ? 8 : 0));
}

// Codes of one group, the even column in the low nibble.
void put_e2m1(std::span<const float> group, float scale, std::byte* out) {
  for (size_t i = 0; i < group.size(); i += 2) {
    out[i / 2] =
        static_cast<std::byte>(e2m1_code(group[i], scale) | e2m1_code(group[i + 1], scale) << 4);
  }
}

struct E4M3 {
  uint8_t code = 0;
  float value = 0.0F;
};

// Nearest even; `value` in [2^-9, 448]. A binade of e4m3 has steps of an eighth of its start, and
// subnormals go on with the steps of the lowest one; so the codes count steps throughout.
E4M3 round_to_e4m3(float value) {
  const int exponent = std::max(std::ilogb(value), -6);
  const float steps = std::nearbyint(std::ldexp(value, 3 - exponent));
  return {.code = static_cast<uint8_t>((exponent + 6) * 8 + static_cast<int>(steps)),
          .value = std::ldexp(steps, exponent - 3)};
}

// The block scale, in units of the matrix scale, that takes the largest element to code 6; 1 for a
// block of zeros (ModelOpt's rule).
void encode_nvfp4(std::span<const float> group, float matrix_scale, std::byte* codes,
                  std::byte* scale_out) {
  const float amax = largest_magnitude(group);
  const float wanted = amax == 0.0F ? 1.0F : amax / kLargestE2M1 / matrix_scale;
  const E4M3 scale = round_to_e4m3(std::clamp(wanted, kSmallestE4M3, kLargestE4M3));
  *scale_out = static_cast<std::byte>(scale.code);
  put_e2m1(group, scale.value * matrix_scale, codes);
}

// OCP MX: the scale is the power of two that takes the largest element to [4, 8), where those
// beyond 6 saturate; 1 for a block of zeros.
void encode_mxfp4(std::span<const float> group, std::byte* codes, std::byte* scale_out) {
  const float amax = largest_magnitude(group);
  const int exponent = amax == 0.0F ? 0 : std::max(std::ilogb(amax) - 2, -127);
  *scale_out = static_cast<std::byte>(exponent + 127);
  put_e2m1(group, std::ldexp(1.0F, exponent), codes);
}

Result<void> encode_bf16(std::span<const float> row, std::byte* out) {
  for (size_t i = 0; i < row.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(row[i]);
    const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    if ((rounded & 0x7F800000U) == 0x7F800000U) {
      return fail(ErrorKind::kInvalidData, "column {} holds {}, beyond the range of bf16", i,
                  row[i]);
    }
    put_u16(out + 2 * i, static_cast<uint16_t>(rounded >> 16));
  }
  return {};
}

// Runs `encode(group of columns, index of the group)` over the row; an error gains its columns.
template <class Encode>
Result<void> for_each_group(std::span<const float> row, size_t group_cols, Encode encode) {
  for (size_t i = 0; i < row.size() / group_cols; ++i) {
    if (auto done = encode(row.subspan(i * group_cols, group_cols), i); !done) {
      return std::unexpected(done.error().in(
          fmt::format("columns {} to {}", i * group_cols, (i + 1) * group_cols - 1)));
    }
  }
  return {};
}

Result<void> refuse_non_finite(std::span<const float> row) {
  const auto bad = std::ranges::find_if(row, [](float x) { return !std::isfinite(x); });
  if (bad == row.end()) return {};
  return fail(ErrorKind::kInvalidData, "column {} holds {}, expected a finite number",
              bad - row.begin(), *bad);
}

size_t scale_bytes_of(Format format, size_t cols) {
  if (format == Format::kNvfp4) return cols / kNvfp4Group;
  if (format == Format::kMxfp4) return cols / kMxfp4Group;
  return 0;
}

}  // namespace

bool can_encode(Format format) {
  return format == Format::kBF16 || format == Format::kQ8_0 || format == Format::kQ4_0 ||
         format == Format::kMxfp4 || format == Format::kNvfp4;
}

float nvfp4_matrix_scale(float amax) {
  if (amax == 0.0F) return 1.0F;
  return std::max(amax / (kLargestE2M1 * kLargestE4M3), std::numeric_limits<float>::min());
}

Result<void> encode_row(Format format, std::span<const float> row, float matrix_scale,
                        std::span<std::byte> data, std::span<std::byte> scales) {
  PENSTOCK_CHECK(can_encode(format), "no quantiser for this format");
  PENSTOCK_CHECK(row.size() % info(format).group == 0, "a row ends inside a group");
  PENSTOCK_CHECK(data.size() == row_bytes(format, static_cast<int64_t>(row.size())),
                 "data is not one row");
  PENSTOCK_CHECK(scales.size() == scale_bytes_of(format, row.size()), "scales are not one row's");
  PENSTOCK_TRY(refuse_non_finite(row));

  std::byte* const out = data.data();
  switch (format) {
    case Format::kQ8_0:
      return for_each_group(row, kGgmlGroup, [&](std::span<const float> group, size_t i) {
        return encode_q8_0(group, out + i * 34);
      });
    case Format::kQ4_0:
      return for_each_group(row, kGgmlGroup, [&](std::span<const float> group, size_t i) {
        return encode_q4_0(group, out + i * 18);
      });
    case Format::kMxfp4:
      for (size_t i = 0; i < row.size() / kMxfp4Group; ++i) {
        encode_mxfp4(row.subspan(i * kMxfp4Group, kMxfp4Group), out + i * kMxfp4Group / 2,
                     &scales[i]);
      }
      return {};
    case Format::kNvfp4:
      for (size_t i = 0; i < row.size() / kNvfp4Group; ++i) {
        encode_nvfp4(row.subspan(i * kNvfp4Group, kNvfp4Group), matrix_scale,
                     out + i * kNvfp4Group / 2, &scales[i]);
      }
      return {};
    default:
      return encode_bf16(row, out);
  }
}

}  // namespace penstock
