#include "tensor/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tensor/golden_blocks_test.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<std::byte> to_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> decoded(const MatrixView& matrix, int64_t row = 0) {
  std::vector<float> out(static_cast<size_t>(matrix.cols));
  decode_row(matrix, row, out);
  return out;
}

std::vector<float> widened(const MatrixView& matrix, int64_t row = 0) {
  std::vector<float> out(static_cast<size_t>(matrix.cols));
  widen_row(matrix, row, out);
  return out;
}

// The same number: equal bits but for the sign of a zero (gguf-py reads E2M1's code 8 as +0, the
// standard as -0), or both NaN.
void expect_same(std::span<const float> found, std::span<const float> expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool same = found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]));
    ASSERT_TRUE(same) << what << " at " << i << ": " << found[i] << ", expected " << expected[i];
  }
}

class GoldenBlocks : public testing::Test {
 protected:
  const std::map<std::string, GoldenTensor> tensors_ = read_golden_blocks();
};

TEST_F(GoldenBlocks, EveryGgufTypeDecodesToGgufsBits) {
  const std::map<std::string, Format> types = {
      {"BF16", Format::kBF16},     {"Q4_0", Format::kQ4_0},        {"Q4_1", Format::kQ4_1},
      {"Q5_0", Format::kQ5_0},     {"Q5_1", Format::kQ5_1},        {"Q8_0", Format::kQ8_0},
      {"Q2_K", Format::kQ2_K},     {"Q3_K", Format::kQ3_K},        {"Q4_K", Format::kQ4_K},
      {"Q5_K", Format::kQ5_K},     {"Q6_K", Format::kQ6_K},        {"IQ4_NL", Format::kIQ4_NL},
      {"IQ4_XS", Format::kIQ4_XS}, {"MXFP4", Format::kMxfp4Block}, {"NVFP4", Format::kNvfp4Block},
  };
  for (const auto& [name, format] : types) {
    const GoldenTensor& raw = tensors_.at(name + ".raw");
    const GoldenTensor& expected = tensors_.at(name + ".f32");
    const MatrixView matrix{
        .format = format, .rows = raw.shape[0], .cols = expected.shape[1], .data = raw.bytes};
    ASSERT_TRUE(is_whole(matrix)) << name;
    ASSERT_EQ(row_bytes(format, matrix.cols), static_cast<size_t>(raw.shape[1])) << name;
    const std::vector<float> values = expected.floats();
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const auto row_values = std::span(values).subspan(static_cast<size_t>(row * matrix.cols),
                                                        static_cast<size_t>(matrix.cols));
      expect_same(decoded(matrix, row), row_values, name + " row " + std::to_string(row));
    }
  }
}

TEST_F(GoldenBlocks, EveryCodeOfTheSmallFloats) {
  std::vector<float> e4m3;
  std::vector<float> e5m2;
  std::vector<float> e8m0;
  std::vector<float> e2m1;
  for (unsigned code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    e4m3.push_back(e4m3_to_f32(bits));
    e5m2.push_back(e5m2_to_f32(bits));
    e8m0.push_back(e8m0_to_f32(bits));
    e2m1.push_back(e2m1_to_f32(code & 15u));
    e2m1.push_back(e2m1_to_f32(code >> 4));
  }
  expect_same(e4m3, tensors_.at("fp8_e4m3.f32").floats(), "e4m3");
  expect_same(e5m2, tensors_.at("fp8_e5m2.f32").floats(), "e5m2");
  expect_same(e8m0, tensors_.at("e8m0.f32").floats(), "e8m0");
  expect_same(e2m1, tensors_.at("e2m1_pair.f32").floats(), "e2m1");
}

// torch multiplies code * scale first and the tensor's scale second, as decode_row does.
TEST_F(GoldenBlocks, ModelOptNvfp4) {
  const GoldenTensor& packed = tensors_.at("nvfp4.packed");
  const MatrixView matrix{.format = Format::kNvfp4,
                          .rows = 16,
                          .cols = 64,
                          .data = packed.bytes,
                          .scales = tensors_.at("nvfp4.scale_bits").bytes,
                          .scale = tensors_.at("nvfp4.scale_2").floats().at(0)};
  ASSERT_TRUE(is_whole(matrix));
  const std::vector<float> values = tensors_.at("nvfp4.f32").floats();
  for (int64_t row = 0; row < 16; ++row) {
    const auto expected = std::span(values).subspan(static_cast<size_t>(row) * 64, 64);
    const std::vector<float> found = decoded(matrix, row);
    for (size_t k = 0; k < 64; ++k) {
      // Two roundings at most on each side, whichever product was formed first.
      EXPECT_LE(std::abs(found[k] - expected[k]), std::abs(expected[k]) * 0x1p-22F) << row;
    }
  }
}

TEST_F(GoldenBlocks, GptOssMxfp4) {
  const MatrixView matrix{.format = Format::kMxfp4,
                          .rows = 16,
                          .cols = 128,
                          .data = tensors_.at("mxfp4_hf.blocks").bytes,
                          .scales = tensors_.at("mxfp4_hf.scales").bytes};
  ASSERT_TRUE(is_whole(matrix));
  const std::vector<float> values = tensors_.at("mxfp4_hf.f32").floats();
  for (int64_t row = 0; row < 16; ++row) {
    expect_same(decoded(matrix, row),
                std::span(values).subspan(static_cast<size_t>(row) * 128, 128), "mxfp4");
  }
}

// IEEE 754-2008, binary16: its parameters, and its codes in order between neighbours.
TEST(ScalarTypes, HalvesByDefinition) {
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x03FF), 1023 * 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x0400), 0x1p-14F);
  EXPECT_EQ(f16_to_f32(0x3C00), 1.0F);
  EXPECT_EQ(f16_to_f32(0x3C01), 1.0F + 0x1p-10F);
  EXPECT_EQ(f16_to_f32(0xFBFF), -65504.0F);
  EXPECT_EQ(f16_to_f32(0x7C00), INFINITY);
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7C01)));
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  for (uint16_t bits = 0; bits < 0x7C00; ++bits) {
    ASSERT_LT(f16_to_f32(bits), f16_to_f32(static_cast<uint16_t>(bits + 1)));
    ASSERT_EQ(f16_to_f32(static_cast<uint16_t>(bits | 0x8000)), -f16_to_f32(bits));
  }
}

TEST(ScalarTypes, UnsignedScalesIgnoreTheSignAndTheNaNCode) {
  for (unsigned code = 0; code < 128; ++code) {
    const float expected = code == 0x7F ? 0.0F : e4m3_to_f32(static_cast<uint8_t>(code));
    EXPECT_EQ(ue4m3_to_f32(static_cast<uint8_t>(code)), expected);
    EXPECT_EQ(ue4m3_to_f32(static_cast<uint8_t>(code | 0x80)), expected);
  }
}

// The worked example of docs/formats.md, computed with gguf-py.
TEST(Codec, WorkedExampleOfQ4K) {
  auto block = to_bytes({0x00, 0x2C, 0x00, 0x38, 0x45, 0x91, 0xE1, 0xFF, 0x01, 0x42, 0xA2, 0xFF,
                         0x34, 0x28, 0x32, 0x0F});
  for (int i = 0; i < 128; ++i) block.push_back(static_cast<std::byte>(17 * i + 5));
  const auto y = decoded({.format = Format::kQ4_K, .rows = 1, .cols = 256, .data = block});
  const std::map<size_t, float> expected = {
      {0, 1.0625F},   {1, 1.375F},  {31, 0.75F}, {32, -1.0F},    {33, 0.0625F}, {64, -6.6875F},
      {96, -23.625F}, {128, 4.75F}, {160, 1.0F}, {192, -1.875F}, {255, 3.5625F}};
  for (const auto& [e, value] : expected) EXPECT_EQ(y[e], value) << "element " << e;
}

// One block of each type, B[i] = (37 i + 11) mod 256 with the scales overwritten, computed with
// gguf-py.
struct OneBlock {
  Format format;
  std::vector<size_t> d_at;  // where the half 0x2C00 goes
  std::vector<size_t> m_at;  // where the half 0x3800 goes
  float first, second, middle, last, sum, sum_of_magnitudes;
};

TEST(Codec, OneBlockOfEachGgmlType) {
  const std::vector<OneBlock> cases = {
      {Format::kQ4_0, {0}, {}, -0.1875F, 0.125F, -0.0625F, 0, -1.3125F, 7.6875F},
      {Format::kQ4_1, {0}, {2}, 1.4375F, 0.75F, 1.25F, 1.25F, 31.3125F, 31.3125F},
      {Format::kQ5_0, {0}, {}, 0.5625F, -0.125F, 0, 0.0625F, 0.9375F, 15.4375F},
      {Format::kQ5_1, {0}, {2}, 1.6875F, 2, 0.8125F, 0.8125F, 47.5625F, 47.5625F},
      {Format::kQ8_0, {0}, {}, 5.3125F, 7.625F, -3.375F, -3, -11, 135.75F},
      {Format::kIQ4_NL, {0}, {}, -2.1875F, 1.5625F, -0.625F, 0.0625F, -16.0625F, 106.5625F},
      {Format::kMxfp4Block, {}, {}, 0, 0.1875F, 0.1875F, 0.1875F, 0.78125F, 4.71875F},
      {Format::kNvfp4Block, {}, {}, -6, 2, 1, 64, 699.5F, 4534},
      {Format::kQ2_K, {80}, {82}, 2.0625F, 0, -1.5F, -1.125F, -658.8125F, 740.8125F},
      {Format::kQ3_K, {108}, {}, 5.0625F, -6.75F, 0, 2.625F, 59.875F, 575.625F},
      {Format::kQ4_K, {0}, {2}, -4.1875F, -25.5F, -6, -13.375F, -557.5F, 3483.75F},
      {Format::kQ5_K, {0}, {2}, 26.8125F, -25.5F, -6, -9.625F, 3303.5F, 5903.5F},
      {Format::kQ6_K, {208}, {}, -89.4375F, 106, 26, -3.75F, 288.25F, 16656.375F},
      {Format::kIQ4_XS, {0}, {}, 4.0625F, -0.0625F, 0.5625F, -1, -687.8125F, 10416.4375F},
  };
  for (const OneBlock& c : cases) {
    const FormatInfo& f = info(c.format);
    std::vector<std::byte> block(f.group_bytes);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(37 * i + 11);
    for (const size_t at : c.d_at) block[at] = std::byte{0}, block[at + 1] = std::byte{0x2C};
    for (const size_t at : c.m_at) block[at] = std::byte{0}, block[at + 1] = std::byte{0x38};
    if (c.format == Format::kMxfp4Block) block[0] = std::byte{0x7B};
    if (c.format == Format::kNvfp4Block) {
      const auto scales = to_bytes({0x38, 0x40, 0x30, 0x70});
      std::copy(scales.begin(), scales.end(), block.begin());
    }
    const auto y = decoded({.format = c.format, .rows = 1, .cols = f.group, .data = block});
    const size_t n = y.size();
    // Every partial sum is a multiple of 2^-5 below 2^15: exact in float32.
    const float sum = std::accumulate(y.begin(), y.end(), 0.0F);
    const float magnitudes = std::accumulate(
        y.begin(), y.end(), 0.0F, [](float total, float value) { return total + std::abs(value); });
    EXPECT_THAT((std::vector{y[0], y[1], y[n / 2 + 1], y[n - 1], sum, magnitudes}),
                ElementsAre(c.first, c.second, c.middle, c.last, c.sum, c.sum_of_magnitudes))
        << f.name;
  }
}

// docs/formats.md's NVFP4 example, in both orders of nibbles.
TEST(Codec, WorkedExampleOfNvfp4) {
  const auto codes = to_bytes({0x90, 0x32, 0x5C, 0x7E, 0x91, 0xA2, 0xD4, 0xF6});
  const auto scales = to_bytes({0x70});
  const MatrixView split{.format = Format::kNvfp4,
                         .rows = 1,
                         .cols = 16,
                         .data = codes,
                         .scales = scales,
                         .scale = 0.0025F};
  const std::vector<float> exact = {0,    -.16F, .32F, .48F,  -.64F, .96F,  -1.28F, 1.92F,
                                    .16F, -.16F, .32F, -.32F, .64F,  -.96F, 1.28F,  -1.92F};
  const auto found = decoded(split);
  for (size_t i = 0; i < 16; ++i) {
    // The scale, the product and the expected decimal are each rounded once: 3 * 2^-24.
    EXPECT_LE(std::abs(found[i] - exact[i]), 3 * 0x1p-24F * std::abs(exact[i])) << i;
  }

  auto block = to_bytes({0x70, 0, 0, 0, 0x10, 0x99, 0x22, 0xA3, 0x4C, 0xD5, 0x6E, 0xF7});
  block.resize(36);
  const auto ggml = decoded(
      {.format = Format::kNvfp4Block, .rows = 1, .cols = 64, .data = block, .scale = 0.0025F});
  expect_same(std::span(ggml).first(16), found, "ggml order");
}

TEST(Codec, PlainNumbersOfTheSecondRow) {
  const auto f32 = bytes_of(std::vector<float>{9, 9, 1.5F, -2.25F});
  const auto f16 = bytes_of(std::vector<uint16_t>{0, 0, 0x3E00, 0xC080});
  EXPECT_THAT(decoded({.format = Format::kF32, .rows = 2, .cols = 2, .data = f32}, 1),
              ElementsAre(1.5F, -2.25F));
  EXPECT_THAT(decoded({.format = Format::kF16, .rows = 2, .cols = 2, .data = f16}, 1),
              ElementsAre(1.5F, -2.25F));
}

TEST(Codec, WideningLeavesOutTheMatrixScale) {
  const auto codes = to_bytes({0x38, 0xC0, 0x01});  // 1, -2, 2^-9
  MatrixView matrix{
      .format = Format::kFp8Tensor, .rows = 1, .cols = 3, .data = codes, .scale = 0.5F};
  EXPECT_THAT(widened(matrix), ElementsAre(1.0F, -2.0F, 0x1p-9F));
  EXPECT_THAT(decoded(matrix), ElementsAre(0.5F, -1.0F, 0x1p-10F));
}

// 3 x 5 in blocks of 2 x 3: the edge blocks are ragged, each block has its own power of two.
TEST(Codec, Fp8BlockWithEveryKindOfScale) {
  const auto codes = std::vector<std::byte>(15, std::byte{0x38});  // 1.0
  const std::vector<float> powers = {1, 2, 4, 8};
  const std::vector<uint16_t> bf16 = {0x3F80, 0x4000, 0x4080, 0x4100};
  const std::vector<uint16_t> f16 = {0x3C00, 0x4000, 0x4400, 0x4800};
  const std::map<ScaleFormat, std::vector<std::byte>> scales = {
      {ScaleFormat::kF32, bytes_of(powers)},
      {ScaleFormat::kBF16, bytes_of(bf16)},
      {ScaleFormat::kF16, bytes_of(f16)},
      {ScaleFormat::kE8M0, to_bytes({127, 128, 129, 130})}};
  for (const auto& [scale_format, bytes] : scales) {
    const MatrixView matrix{.format = Format::kFp8Block,
                            .rows = 3,
                            .cols = 5,
                            .data = codes,
                            .scales = bytes,
                            .scale_format = scale_format,
                            .group_cols = 3,
                            .block_rows = 2};
    ASSERT_TRUE(is_whole(matrix));
    EXPECT_THAT(decoded(matrix, 1), ElementsAre(1, 1, 1, 2, 2));
    EXPECT_THAT(decoded(matrix, 2), ElementsAre(4, 4, 4, 8, 8));
  }
}

TEST(Codec, Fp8ChannelHasAScalePerRow) {
  const auto codes = to_bytes({0x38, 0xB8, 0x7F, 0x40});
  const auto scales = bytes_of(std::vector<float>{3.0F, 0.25F});
  const MatrixView matrix{
      .format = Format::kFp8Channel, .rows = 2, .cols = 2, .data = codes, .scales = scales};
  EXPECT_THAT(decoded(matrix, 0), ElementsAre(3.0F, -3.0F));
  EXPECT_TRUE(std::isnan(decoded(matrix, 1)[0]));
  EXPECT_EQ(decoded(matrix, 1)[1], 0.5F);
}

// Word 0x76543210 holds columns 0..7 of one row in GPTQ, rows 0 4 1 5 2 6 3 7 in AWQ.
TEST(Codec, GptqWord) {
  std::vector<uint32_t> words(8, 0);
  words[3] = 0x76543210;
  const auto data = bytes_of(words);
  const auto scales = bytes_of(std::vector<uint16_t>(8, 0x3C00));
  const auto zeros = bytes_of(std::vector<uint32_t>{0x00005000});
  MatrixView matrix{.format = Format::kGptq4,
                    .rows = 8,
                    .cols = 8,
                    .data = data,
                    .scales = scales,
                    .zeros = zeros,
                    .group_cols = 8};
  ASSERT_TRUE(is_whole(matrix));
  EXPECT_THAT(decoded(matrix, 3), ElementsAre(-5, -4, -3, -2, -1, 0, 1, 2));
  EXPECT_THAT(decoded(matrix, 2), ElementsAreArray(std::vector<float>(8, 0.0F)));
  matrix.zeros_minus_one = true;
  EXPECT_THAT(decoded(matrix, 3), ElementsAre(-6, -5, -4, -3, -2, -1, 0, 1));
}

TEST(Codec, GptqActOrderNamesTheGroupOfEachColumn) {
  const auto data = bytes_of(std::vector<uint32_t>(16, 0x55555555));
  std::vector<uint16_t> halves(8, 0x3C00);  // group 0: 1
  halves.insert(halves.end(), 8, 0x4000);   // group 1: 2
  const auto scales = bytes_of(halves);
  const auto zeros = bytes_of(std::vector<uint32_t>{0, 0x11111111});
  const auto groups =
      bytes_of(std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0});
  const MatrixView matrix{.format = Format::kGptq4,
                          .rows = 8,
                          .cols = 16,
                          .data = data,
                          .scales = scales,
                          .zeros = zeros,
                          .groups = groups,
                          .group_cols = 8};
  ASSERT_TRUE(is_whole(matrix));
  // Group 0: 1 * (5 - 0), group 1: 2 * (5 - 1).
  EXPECT_THAT(decoded(matrix, 0), ElementsAre(5, 8, 5, 8, 5, 8, 5, 8, 8, 8, 8, 8, 5, 5, 5, 5));
}

TEST(Codec, AwqWord) {
  const auto data = bytes_of(std::vector<uint32_t>{0x76543210, 0});
  const auto scales = bytes_of(std::vector<uint16_t>(16, 0x4000));  // 2.0
  const auto zeros = bytes_of(std::vector<uint32_t>{0, 0x76543210});
  const MatrixView matrix{.format = Format::kAwq4,
                          .rows = 8,
                          .cols = 2,
                          .data = data,
                          .scales = scales,
                          .zeros = zeros,
                          .group_cols = 1};
  ASSERT_TRUE(is_whole(matrix));
  const std::vector<float> of_row = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int64_t row = 0; row < 8; ++row) {
    const float q = of_row[static_cast<size_t>(row)];
    EXPECT_THAT(decoded(matrix, row), ElementsAre(2 * q, -2 * q)) << row;
  }
}

TEST(Codec, APartOfARowIsThatPartOfTheWholeRow) {
  const std::map<std::string, GoldenTensor> tensors = read_golden_blocks();
  const GoldenTensor& raw = tensors.at("Q4_1.raw");
  const MatrixView matrix{.format = Format::kQ4_1, .rows = 8, .cols = 256, .data = raw.bytes};
  const std::vector<float> whole = widened(matrix, 5);
  std::vector<float> part(96);
  widen_columns(matrix, 5, {64, 160}, part);
  expect_same(part, std::span(whole).subspan(64, 96), "columns 64..160");
}

}  // namespace
}  // namespace penstock
