#include "tensor/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr Format kEncoded[] = {Format::kBF16, Format::kQ8_0, Format::kQ4_0, Format::kMxfp4,
                               Format::kNvfp4};

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

float largest_magnitude(std::span<const float> values) {
  float amax = 0.0F;
  for (const float value : values) amax = std::max(amax, std::fabs(value));
  return amax;
}

// A matrix in some format, and the memory behind its view.
struct Encoded {
  std::vector<std::byte> data = {};
  std::vector<std::byte> scales = {};
  MatrixView view = {};
};

size_t scale_group(Format format) {
  if (format == Format::kNvfp4) return 16;
  return format == Format::kMxfp4 ? 32 : 0;
}

Result<Encoded> encode_matrix(Format format, std::span<const float> values, size_t cols,
                              float matrix_scale) {
  const size_t rows = values.size() / cols;
  const size_t row_data = row_bytes(format, static_cast<int64_t>(cols));
  const size_t row_scales = scale_group(format) == 0 ? 0 : cols / scale_group(format);
  Encoded out;
  out.data.resize(rows * row_data);
  out.scales.resize(rows * row_scales);
  for (size_t r = 0; r < rows; ++r) {
    PENSTOCK_TRY(encode_row(format, values.subspan(r * cols, cols), matrix_scale,
                            std::span(out.data).subspan(r * row_data, row_data),
                            std::span(out.scales).subspan(r * row_scales, row_scales)));
  }
  out.view = {.format = format,
              .rows = static_cast<int64_t>(rows),
              .cols = static_cast<int64_t>(cols),
              .data = out.data,
              .scales = out.scales};
  if (format == Format::kNvfp4) out.view.scale = matrix_scale;
  return out;
}

std::vector<float> decode_matrix(const MatrixView& view) {
  const auto cols = static_cast<size_t>(view.cols);
  std::vector<float> out(static_cast<size_t>(view.rows) * cols);
  for (int64_t r = 0; r < view.rows; ++r) {
    decode_row(view, r, std::span(out).subspan(static_cast<size_t>(r) * cols, cols));
  }
  return out;
}

TEST(Encode, BytesEqualOtherPeoplesQuantisers) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/encode/rows.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto cases = parse_json(text.str());
  ASSERT_TRUE(cases) << cases.error().text();
  ASSERT_GE(cases->size(), 8U);

  for (const Json& golden : *cases) {
    const std::vector<float> values = floats(from_hex(golden["values"]));
    for (const Format format : kEncoded) {
      const std::string name(info(format).name);
      SCOPED_TRACE(golden["name"].get<std::string>() + " " + name);
      const Json& expected = golden[name];
      float scale = 1.0F;
      if (format == Format::kNvfp4) {
        scale = nvfp4_matrix_scale(largest_magnitude(values));
        EXPECT_EQ(scale, expected["scale"].get<float>());
      }
      const auto encoded = encode_matrix(format, values, golden["cols"], scale);
      ASSERT_TRUE(encoded) << encoded.error().text();
      EXPECT_EQ(encoded->data, from_hex(expected["data"]));
      EXPECT_EQ(encoded->scales, from_hex(expected.value("scales", "")));
    }
  }
}

// checkpoint_formats.md 4.2: 16 weights of a matrix whose largest magnitude is 6.72.
TEST(Encode, Nvfp4WorkedExample) {
  const std::vector<float> w = {.03F, -.12F, .25F, .5F,  -.75F, 1.0F, -1.5F, 2.0F,
                                .1F,  -.2F,  .3F,  -.4F, .6F,   -.9F, 1.2F,  -1.8F};
  const float scale = nvfp4_matrix_scale(6.72F);
  EXPECT_FLOAT_EQ(scale, 0.0025F);
  const auto encoded = encode_matrix(Format::kNvfp4, w, w.size(), scale);
  ASSERT_TRUE(encoded) << encoded.error().text();
  EXPECT_EQ(encoded->data, from_hex("90325C7E91A2D4F6"));
  EXPECT_EQ(encoded->scales, from_hex("70"));
}

// Every e4m3 number above 0, and every midpoint between neighbours, as a block scale. The block's
// largest element is 6 times the scale, which float32 holds exactly.
TEST(Encode, Nvfp4BlockScalesRoundToTheNearestEvenCode) {
  const auto e4m3 = [](int code) {
    return code < 8 ? std::ldexp(static_cast<float>(code), -9)
                    : std::ldexp(static_cast<float>(8 + code % 8), code / 8 - 10);
  };
  const auto scale_code = [](float scale) {
    std::vector<float> block(16, 0.0F);
    block[3] = -6.0F * scale;
    return std::to_integer<int>(encode_matrix(Format::kNvfp4, block, 16, 1.0F)->scales[0]);
  };
  for (int code = 1; code <= 126; ++code) {
    EXPECT_EQ(scale_code(e4m3(code)), code);
    if (code == 126) continue;
    const float midpoint = (e4m3(code) + e4m3(code + 1)) / 2;
    EXPECT_EQ(scale_code(midpoint), code % 2 == 0 ? code : code + 1) << "midpoint above " << code;
    EXPECT_EQ(scale_code(midpoint * 0.999F), code);
    EXPECT_EQ(scale_code(midpoint * 1.001F), code + 1);
  }
  EXPECT_EQ(scale_code(1e-6F), 1) << "below 2^-9 the scale clamps";
  EXPECT_EQ(scale_code(460.0F), 126) << "above 448 the scale clamps";
}

// Half the distance between neighbours of each format, as a share of the group's largest element,
// plus the rounding of the group's scale.
//   bf16    7 stored bits: 2^-8 of the element itself
//   q8_0    half a step of amax / 127; the step as float16 moves code 127 by 2^-11
//   q4_0    the range is [-8, 7] steps of amax / 8, so +8 loses a whole step; float16 as above
//   mxfp4   the scale puts amax in [4, 8): 8 saturates to 6, a quarter of amax
//   nvfp4   1 of 6 between codes 4 and 6, and the scale may round up by 1/16
float error_bound(Format format, float value, float group_amax) {
  switch (format) {
    case Format::kBF16:
      return std::fabs(value) * 0x1p-8F;
    case Format::kQ8_0:
      return group_amax * (0.5F / 127 + 0x1p-11F) * 1.0001F;
    case Format::kQ4_0:
      return group_amax * (1.0F / 8 + 0x1p-11F) * 1.0001F;
    case Format::kMxfp4:
      return group_amax * 0.25F;
    default:
      return group_amax * (1.0F / 6) * (1.0F + 1.0F / 16);
  }
}

TEST(Encode, DecodingComesBackWithinTheFormatsError) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr size_t kCols = 96;
  std::vector<float> values(32 * kCols);
  for (float& value : values) value = normal(random);

  for (const Format format : kEncoded) {
    SCOPED_TRACE(info(format).name);
    const float scale = nvfp4_matrix_scale(largest_magnitude(values));
    const auto encoded = encode_matrix(format, values, kCols, scale);
    ASSERT_TRUE(encoded) << encoded.error().text();
    const std::vector<float> decoded = decode_matrix(encoded->view);
    const size_t group =
        std::max<size_t>(scale_group(format) == 0 ? info(format).group : scale_group(format), 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const float amax = largest_magnitude(std::span(values).subspan(i / group * group, group));
      ASSERT_LE(std::fabs(decoded[i] - values[i]), error_bound(format, values[i], amax))
          << "element " << i << ", " << values[i] << " became " << decoded[i];
    }
  }
}

// No other code of the same block is nearer to the element than the one chosen.
TEST(Encode, Fp4CodesAreTheNearest) {
  constexpr float kMagnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(4096);
  for (float& value : values) value = uniform(random);

  for (const Format format : {Format::kMxfp4, Format::kNvfp4}) {
    SCOPED_TRACE(info(format).name);
    const float scale = format == Format::kNvfp4 ? nvfp4_matrix_scale(1.0F) : 1.0F;
    const auto encoded = encode_matrix(format, values, 64, scale);
    ASSERT_TRUE(encoded);
    const std::vector<float> decoded = decode_matrix(encoded->view);
    const size_t group = scale_group(format);
    for (size_t i = 0; i < values.size(); ++i) {
      // Written out from the formats' definitions, not with the codec.
      const int byte = std::to_integer<int>(encoded->data[i / 2]);
      const int code = i % 2 == 0 ? byte & 15 : byte >> 4;
      const int scale_byte = std::to_integer<int>(encoded->scales[i / group]);
      const float step =
          format == Format::kMxfp4
              ? std::ldexp(1.0F, scale_byte - 127)
              : std::ldexp(static_cast<float>(8 + scale_byte % 8), scale_byte / 8 - 10) * scale;
      ASSERT_FLOAT_EQ(decoded[i], kMagnitudes[code & 7] * step * (code > 7 ? -1.0F : 1.0F));
      for (const float magnitude : kMagnitudes) {
        const float other = std::copysign(magnitude * step, values[i]);
        ASSERT_LE(std::fabs(values[i] - decoded[i]),
                  std::fabs(values[i] - other) + 1e-6F * std::fabs(values[i]));
      }
    }
  }
}

TEST(Encode, ScaleOfTinyMatricesStaysUsable) {
  EXPECT_EQ(nvfp4_matrix_scale(0.0F), 1.0F);
  EXPECT_EQ(nvfp4_matrix_scale(2688.0F), 1.0F);
  EXPECT_GT(nvfp4_matrix_scale(std::numeric_limits<float>::denorm_min()), 0.0F);
  std::vector<float> tiny(64, std::numeric_limits<float>::denorm_min());
  for (const Format format : kEncoded) {
    const auto encoded = encode_matrix(format, tiny, 64, nvfp4_matrix_scale(tiny[0]));
    ASSERT_TRUE(encoded) << encoded.error().text();
    for (const float value : decode_matrix(encoded->view)) EXPECT_LE(std::fabs(value), 1e-37F);
  }
}

TEST(Encode, NonFiniteNumbersAreErrorsThatNameTheColumn) {
  for (const Format format : kEncoded) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      std::vector<float> row(64, 1.0F);
      row[37] = bad;
      const auto encoded = encode_matrix(format, row, 64, 1.0F);
      ASSERT_FALSE(encoded);
      EXPECT_EQ(encoded.error().kind, ErrorKind::kInvalidData);
      EXPECT_THAT(encoded.error().text(), HasSubstr("column 37"));
    }
  }
}

TEST(Encode, NumbersBeyondTheFormatAreErrors) {
  std::vector<float> row(64, 1.0F);
  row[40] = 3.4e38F;  // bf16 would round it to infinity; the ggml steps leave float16's range
  for (const Format format : {Format::kBF16, Format::kQ8_0, Format::kQ4_0}) {
    const auto encoded = encode_matrix(format, row, 64, 1.0F);
    ASSERT_FALSE(encoded) << info(format).name;
    EXPECT_THAT(encoded.error().text(), HasSubstr("beyond"));
  }
  EXPECT_TRUE(encode_matrix(Format::kMxfp4, row, 64, 1.0F));
  EXPECT_TRUE(encode_matrix(Format::kNvfp4, row, 64, nvfp4_matrix_scale(row[40])));
}

TEST(Encode, OnlyTheFormatsOnOfferCanBeEncoded) {
  for (int f = 0; f < kFormatCount; ++f) {
    const auto format = static_cast<Format>(f);
    EXPECT_EQ(can_encode(format), std::ranges::count(kEncoded, format) == 1) << f;
  }
}

}  // namespace
}  // namespace penstock
