#include "tensor/interleave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/integers.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

std::vector<Format> interleaved_formats() {
  std::vector<Format> formats;
  for (int i = 0; i < kFormatCount; ++i) {
    if (interleaved_block(static_cast<Format>(i)).cols != 0) {
      formats.push_back(static_cast<Format>(i));
    }
  }
  return formats;
}

std::vector<std::byte> random_bytes(size_t n, std::mt19937& random) {
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// 48 rows of three blocks, in both layouts.
struct BothLayouts {
  explicit BothLayouts(Format format) {
    std::mt19937 random(7);
    rows = {.format = format, .rows = 48, .cols = int64_t{3} * interleaved_block(format).cols};
    data = random_bytes(*data_bytes(format, rows.rows, rows.cols), random);
    scales = random_bytes(scales_bytes(rows), random);
    rows.data = data;
    rows.scales = scales;
    interleaved_data = data;
    interleaved_scales = scales;
    interleave(rows, interleaved_data, interleaved_scales);
    interleaved = rows;
    interleaved.layout = Layout::kInterleaved;
    interleaved.data = interleaved_data;
    interleaved.scales = interleaved_scales;
  }
  BothLayouts(const BothLayouts&) = delete;
  BothLayouts& operator=(const BothLayouts&) = delete;

  std::vector<std::byte> data, scales, interleaved_data, interleaved_scales;
  MatrixView rows, interleaved;
};

TEST(Interleave, TheFieldsOfABlockAreItsBytes) {
  for (const Format format : interleaved_formats()) {
    const InterleavedBlock block = interleaved_block(format);
    EXPECT_EQ(static_cast<size_t>(block.bytes), row_bytes(format, block.cols)) << info(format).name;
    std::vector<int> times(static_cast<size_t>(block.bytes));
    for (int f = 0; f < block.n_fields; ++f) {
      const InterleavedField& field = block.fields[f];
      EXPECT_EQ(field.bytes % field.unit, 0) << info(format).name;
      for (int at = field.at; at < field.at + field.bytes; ++at) {
        ++times.at(static_cast<size_t>(at));
      }
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << info(format).name;
    const int64_t scale_bytes =
        static_cast<int64_t>(scales_bytes({.format = format, .rows = 1, .cols = block.cols}));
    EXPECT_EQ(interleaved_scales(format).bytes, scale_bytes) << info(format).name;
  }
}

// Worked out by hand from the header's order: two blocks of Q4_0, whose scales come first.
TEST(Interleave, PutsTheSameWordOfSixteenRowsSideBySide) {
  constexpr size_t kRowBytes = 36;
  std::vector<std::byte> data(16 * kRowBytes);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i / kRowBytes * 16 + i % kRowBytes % 16);
  }
  const std::vector<std::byte> before = data;
  const MatrixView matrix = {.format = Format::kQ4_0, .rows = 16, .cols = 64, .data = data};
  interleave(matrix, data, {});
  const auto stored = [&](size_t row, size_t at) { return before[row * kRowBytes + at]; };
  EXPECT_EQ(data[0], stored(0, 0));  // block 0, row 0: d
  EXPECT_EQ(data[1], stored(0, 1));
  EXPECT_EQ(data[2 * 5], stored(5, 0));    // row 5
  EXPECT_EQ(data[32 + 1], stored(0, 19));  // block 1
  EXPECT_EQ(data[64], stored(0, 2));       // the first word of codes
  EXPECT_EQ(data[64 + 3], stored(0, 5));
  EXPECT_EQ(data[64 + 4 * 15], stored(15, 2));
  EXPECT_EQ(data[128], stored(0, 6));                // the second
  EXPECT_EQ(data[64 + 256 + 4], stored(1, 18 + 2));  // block 1, row 1
  EXPECT_EQ(data[575], stored(15, 35));
}

TEST(Interleave, EveryRowComesBack) {
  for (const Format format : interleaved_formats()) {
    const BothLayouts both(format);
    ASSERT_NE(both.interleaved_data, both.data) << info(format).name;
    ASSERT_TRUE(is_whole(both.interleaved)) << info(format).name;
    std::vector<std::byte> data(both.data.size()), scales(both.scales.size());
    for (const Range range : {Range{0, 16}, Range{17, 18}, Range{35, 48}, Range{3, 45}}) {
      const MatrixView taken = rows_of(both.interleaved, range, data, scales);
      ASSERT_EQ(taken.layout, Layout::kRows);
      ASSERT_EQ(taken.rows, range.size());
      const size_t row = row_bytes(format, both.rows.cols);
      const size_t scales_row = both.scales.size() / 48;
      EXPECT_TRUE(std::ranges::equal(
          taken.data, std::span(both.data).subspan(static_cast<size_t>(range.begin) * row,
                                                   static_cast<size_t>(range.size()) * row)))
          << info(format).name;
      EXPECT_TRUE(std::ranges::equal(
          taken.scales,
          std::span(both.scales)
              .subspan(static_cast<size_t>(range.begin) * scales_row, taken.scales.size())))
          << info(format).name;
    }
  }
}

TEST(Interleave, CodecsReadBothLayouts) {
  for (const Format format : interleaved_formats()) {
    const BothLayouts both(format);
    for (const int64_t row : {0, 15, 16, 47}) {
      std::vector<float> expected(static_cast<size_t>(both.rows.cols)), found(expected.size());
      widen_row(both.rows, row, expected);
      widen_row(both.interleaved, row, found);
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)), 0)
          << info(format).name << " row " << row;
      const Range second = {both.rows.cols / 3, both.rows.cols / 3 * 2};
      const auto n = static_cast<size_t>(second.size());
      widen_columns(both.interleaved, row, second, std::span(found).first(n));
      EXPECT_EQ(std::memcmp(found.data(), expected.data() + second.begin, n * sizeof(float)), 0)
          << info(format).name << " row " << row;
    }
  }
}

TEST(Interleave, OnlyWholePanelsOfWholeBlocks) {
  EXPECT_TRUE(has_interleaved_shape({.format = Format::kQ4_0, .rows = 32, .cols = 64}));
  EXPECT_FALSE(has_interleaved_shape({.format = Format::kQ4_0, .rows = 40, .cols = 64}));
  EXPECT_FALSE(has_interleaved_shape({.format = Format::kQ4_0, .rows = 0, .cols = 64}));
  EXPECT_FALSE(has_interleaved_shape({.format = Format::kNvfp4, .rows = 16, .cols = 48}));
  EXPECT_FALSE(has_interleaved_shape({.format = Format::kBF16, .rows = 16, .cols = 64}));
  EXPECT_FALSE(
      is_whole({.format = Format::kBF16, .layout = Layout::kInterleaved, .rows = 0, .cols = 64}));
}

}  // namespace
}  // namespace penstock
