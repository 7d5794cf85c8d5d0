#include "tensor/format.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

namespace penstock {
namespace {

TEST(Format, NamesAreUniqueAndReadBack) {
  std::set<std::string_view> names;
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    EXPECT_TRUE(names.insert(info(format).name).second) << info(format).name;
    EXPECT_EQ(format_from_name(info(format).name), format);
  }
  EXPECT_EQ(format_from_name("q4_1"), Format::kQ4_1);
  EXPECT_EQ(format_from_name("Q4_1"), std::nullopt);
  EXPECT_EQ(format_from_name(""), std::nullopt);
}

// Sizes of docs/formats.md: bytes of a 16 x 512 matrix.
TEST(Format, BytesOfAMatrix) {
  EXPECT_EQ(data_bytes(Format::kF32, 16, 512), 16 * 512 * 4u);
  EXPECT_EQ(data_bytes(Format::kQ4_1, 16, 512), 16 * 16 * 20u);
  EXPECT_EQ(data_bytes(Format::kQ6_K, 16, 512), 16 * 2 * 210u);
  EXPECT_EQ(data_bytes(Format::kNvfp4Block, 16, 512), 16 * 8 * 36u);
  EXPECT_EQ(data_bytes(Format::kNvfp4, 16, 512), 16 * 256u);
  EXPECT_EQ(data_bytes(Format::kFp8Block, 16, 512), 16 * 512u);
  EXPECT_EQ(data_bytes(Format::kGptq4, 16, 512), 16 * 256u);
  EXPECT_EQ(data_bytes(Format::kAwq4, 16, 512), 16 * 256u);
  EXPECT_EQ(data_bytes(Format::kQ8_0, 0, 512), 0u);
  EXPECT_EQ(row_bytes(Format::kMxfp4Block, 64), 34u);
}

TEST(Format, ShapesAFormatCannotHave) {
  EXPECT_EQ(data_bytes(Format::kQ4_K, 1, 128), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kNvfp4, 1, 24), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kGptq4, 8, 12), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kAwq4, 12, 16), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kF32, -1, 16), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kF32, 16, -16), std::nullopt);
}

TEST(Format, CountsThatOverflowAreRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(data_bytes(Format::kF32, kMost, 4), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kBF16, int64_t{1} << 33, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(data_bytes(Format::kAwq4, int64_t{1} << 33, int64_t{1} << 33), std::nullopt);
}

TEST(Format, BytesOfScales) {
  MatrixView matrix{.format = Format::kNvfp4, .rows = 3, .cols = 64};
  EXPECT_EQ(scales_bytes(matrix), 12u);
  matrix.format = Format::kMxfp4;
  EXPECT_EQ(scales_bytes(matrix), 6u);
  matrix = {
      .format = Format::kFp8Block, .rows = 129, .cols = 300, .group_cols = 128, .block_rows = 128};
  EXPECT_EQ(scales_bytes(matrix), 2 * 3 * 4u);
  matrix.scale_format = ScaleFormat::kBF16;
  EXPECT_EQ(scales_bytes(matrix), 2 * 3 * 2u);
  matrix = {
      .format = Format::kFp8Channel, .rows = 5, .cols = 7, .scale_format = ScaleFormat::kE8M0};
  EXPECT_EQ(scales_bytes(matrix), 5u);
  matrix = {.format = Format::kGptq4, .rows = 16, .cols = 200, .group_cols = 128};
  EXPECT_EQ(scales_bytes(matrix), 2 * 16 * 2u);
  matrix.format = Format::kQ4_0;
  EXPECT_EQ(scales_bytes(matrix), 0u);
}

TEST(Format, AMatrixIsWholeOnlyWithAllItsBytes) {
  const std::vector<std::byte> bytes(4096);
  const auto span = [&](size_t n) { return std::span(bytes).first(n); };
  const MatrixView whole{.format = Format::kGptq4,
                         .rows = 16,
                         .cols = 64,
                         .data = span(512),
                         .scales = span(64),
                         .zeros = span(16),
                         .groups = span(256),
                         .group_cols = 32};
  EXPECT_TRUE(is_whole(whole));
  for (auto field :
       {&MatrixView::data, &MatrixView::scales, &MatrixView::zeros, &MatrixView::groups}) {
    MatrixView cut = whole;
    cut.*field = (cut.*field).first((cut.*field).size() - 1);
    EXPECT_FALSE(is_whole(cut));
  }
  MatrixView no_group = whole;
  no_group.group_cols = 0;
  EXPECT_FALSE(is_whole(no_group));
  MatrixView no_block{.format = Format::kFp8Block,
                      .rows = 4,
                      .cols = 4,
                      .data = span(16),
                      .scales = span(64),
                      .group_cols = 4};
  EXPECT_FALSE(is_whole(no_block));
  no_block.block_rows = 4;
  EXPECT_TRUE(is_whole(no_block));
}

}  // namespace
}  // namespace penstock
