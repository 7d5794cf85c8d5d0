// A matrix of random bytes in any format, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "tensor/interleave.h"

namespace penstock {

enum class Numbers : uint8_t {
  kModest,   // weights and scales as models have them: finite, none overflows a sum
  kExtreme,  // scales that are zero, subnormal, the largest, infinite or NaN among them
};

// Owns the bytes behind its view, at odd addresses and not one byte longer than they must be.
class RandomMatrix {
 public:
  RandomMatrix(Format format, int64_t rows, int64_t cols, Numbers numbers, uint64_t seed,
               ScaleFormat scale_format = ScaleFormat::kF32, uint32_t group_cols = 0,
               bool act_order = false)
      : random_(seed), numbers_(numbers) {
    view_ = {.format = format,
             .rows = rows,
             .cols = cols,
             .scale_format = scale_format,
             .group_cols = group_cols != 0 ? group_cols : 32,
             .block_rows = 5,
             .zeros_minus_one = format == Format::kGptq4,
             .scale = 0.375F};
    data_ = random_bytes(data_bytes(format, rows, cols).value());
    scales_ = random_bytes(scales_bytes(view_));
    const size_t n_groups = (static_cast<size_t>(cols) + view_.group_cols - 1) / view_.group_cols;
    const bool int4 = format == Format::kGptq4 || format == Format::kAwq4;
    zeros_ = random_bytes(int4 ? n_groups * static_cast<size_t>(rows) / 2 : 0);
    overwrite_scales();
    if (act_order) {
      groups_ = random_bytes(sizeof(int32_t) * static_cast<size_t>(cols));
      fill(groups_, [&] { return static_cast<int32_t>(random_() % n_groups); });
      view_.groups = std::span(groups_).subspan(1);
    }
    view_.data = std::span(data_).subspan(1);
    view_.scales = std::span(scales_).subspan(1);
    view_.zeros = std::span(zeros_).subspan(1);
    PENSTOCK_CHECK(is_whole(view_), "a random matrix lacks bytes");
  }
  RandomMatrix(const RandomMatrix&) = delete;
  RandomMatrix& operator=(const RandomMatrix&) = delete;

  const MatrixView& view() const { return view_; }

 private:
  std::vector<std::byte> random_bytes(size_t n) {
    std::vector<std::byte> bytes(n + 1);
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
      const uint64_t word = random_();
      std::memcpy(&bytes[i], &word, std::min(sizeof word, bytes.size() - i));
    }
    return bytes;
  }

  // Where a block of the format keeps f16 numbers.
  static std::vector<size_t> halves_in_block(Format format) {
    switch (format) {
      case Format::kQ4_0:
      case Format::kQ5_0:
      case Format::kQ8_0:
      case Format::kIQ4_NL:
      case Format::kIQ4_XS:
        return {0};
      case Format::kQ4_1:
      case Format::kQ5_1:
      case Format::kQ4_K:
      case Format::kQ5_K:
        return {0, 2};
      case Format::kQ2_K:
        return {80, 82};
      case Format::kQ3_K:
        return {108};
      case Format::kQ6_K:
        return {208};
      default:
        return {};
    }
  }

  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  bool is_extreme() { return numbers_ == Numbers::kExtreme && random_() % 4 == 0; }

  // Modest numbers lie between 2^-6 and 2^2, of either sign, with random fractions.
  uint16_t half() {
    if (is_extreme()) {
      return one_of<uint16_t>(
          {0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00});
    }
    return static_cast<uint16_t>((random_() & 0x83FF) | (9 + random_() % 8) << 10);
  }
  uint32_t single() {
    if (is_extreme()) {
      return one_of<uint32_t>({0, 0x80000000, 1, 0x80000001, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF,
                               0x7F800000, 0x7FC00000, 0x7C800000});
    }
    return static_cast<uint32_t>((random_() & 0x807FFFFF) | (121 + random_() % 8) << 23);
  }
  uint8_t e4m3() {
    if (is_extreme()) return one_of<uint8_t>({0, 0x80, 1, 0x81, 7, 0x7E, 0xFE, 0x7F, 0xFF});
    return static_cast<uint8_t>((random_() & 0x87) | (1 + random_() % 8) << 3);
  }
  uint8_t e8m0() {
    if (is_extreme()) return one_of<uint8_t>({0, 1, 2, 254, 255});
    return static_cast<uint8_t>(121 + random_() % 8);
  }
  template <class T>
  void put(std::vector<std::byte>& bytes, size_t at, T value) {
    PENSTOCK_CHECK(1 + at + sizeof value <= bytes.size(), "a number outside the matrix");
    std::memcpy(&bytes[1 + at], &value, sizeof value);
  }
  template <class Make>
  void fill(std::vector<std::byte>& bytes, Make make) {
    using T = decltype(make());
    for (size_t at = 0; at + sizeof(T) < bytes.size(); at += sizeof(T)) put(bytes, at, make());
  }

  void fill_scales() {
    switch (view_.scale_format) {
      case ScaleFormat::kF32:
        return fill(scales_, [&] { return single(); });
      case ScaleFormat::kBF16:
        return fill(scales_, [&] { return static_cast<uint16_t>(single() >> 16); });
      case ScaleFormat::kF16:
        return fill(scales_, [&] { return half(); });
      case ScaleFormat::kE8M0:
        return fill(scales_, [&] { return e8m0(); });
    }
  }

  void overwrite_scales() {
    switch (view_.format) {
      case Format::kF32:
        return fill(data_, [&] { return single(); });
      case Format::kF16:
        return fill(data_, [&] { return half(); });
      case Format::kBF16:
        return fill(data_, [&] { return static_cast<uint16_t>(single() >> 16); });
      case Format::kMxfp4:
        return fill(scales_, [&] { return e8m0(); });
      case Format::kNvfp4:
        return fill(scales_, [&] { return e4m3(); });
      case Format::kFp8Block:
      case Format::kFp8Channel:
      case Format::kFp8Tensor:
        fill(data_, [&] { return e4m3(); });
        return fill_scales();
      case Format::kGptq4:
      case Format::kAwq4:
        return fill(scales_, [&] { return half(); });
      default:
        return overwrite_block_scales();
    }
  }

  void overwrite_block_scales() {
    const size_t block_bytes = info(view_.format).group_bytes;
    const std::vector<size_t> halves = halves_in_block(view_.format);
    for (size_t block = 0; block + block_bytes < data_.size(); block += block_bytes) {
      for (const size_t at : halves) put(data_, block + at, half());
      if (view_.format == Format::kMxfp4Block) put(data_, block, e8m0());
      if (view_.format == Format::kNvfp4Block) {
        for (size_t i = 0; i < 4; ++i) put(data_, block + i, e4m3());
      }
    }
  }

  std::mt19937_64 random_;
  Numbers numbers_;
  MatrixView view_;
  std::vector<std::byte> data_;
  std::vector<std::byte> scales_;
  std::vector<std::byte> zeros_;
  std::vector<std::byte> groups_;
};

// A matrix of an interleaved shape in that layout, and at odd addresses.
class InterleavedCopy {
 public:
  explicit InterleavedCopy(const MatrixView& by_rows) : view_(by_rows) {
    const auto copy = [](std::span<const std::byte> from, std::vector<std::byte>& to) {
      to.assign(from.size() + 1, std::byte{});
      std::ranges::copy(from, to.begin() + 1);
      return std::span(to).subspan(1);
    };
    const std::span<std::byte> data = copy(by_rows.data, data_);
    const std::span<std::byte> scales = copy(by_rows.scales, scales_);
    interleave(by_rows, data, scales);
    view_.layout = Layout::kInterleaved;
    view_.data = data;
    view_.scales = scales;
  }
  InterleavedCopy(const InterleavedCopy&) = delete;
  InterleavedCopy& operator=(const InterleavedCopy&) = delete;

  const MatrixView& view() const { return view_; }

 private:
  MatrixView view_;
  std::vector<std::byte> data_, scales_;
};

// A format with the ways its scales may be stored and laid out, and the columns its edges lie at.
struct FormatCase {
  Format format = Format::kF32;
  ScaleFormat scale_format = ScaleFormat::kF32;
  uint32_t group_cols = 0;
  bool act_order = false;

  std::string name() const {
    std::string text(info(format).name);
    if (format == Format::kFp8Block || format == Format::kFp8Channel) {
      text += "/scale" + std::to_string(static_cast<int>(scale_format));
    }
    if (group_cols != 0) text += "/group" + std::to_string(group_cols);
    return act_order ? text + "/order" : text;
  }
};

inline std::vector<FormatCase> every_format_case() {
  std::vector<FormatCase> cases;
  cases.reserve(size_t{2} * kFormatCount);
  for (int i = 0; i < kFormatCount; ++i) cases.push_back({.format = static_cast<Format>(i)});
  for (const auto scales : {ScaleFormat::kBF16, ScaleFormat::kF16, ScaleFormat::kE8M0}) {
    cases.push_back({.format = Format::kFp8Block, .scale_format = scales, .group_cols = 16});
    cases.push_back({.format = Format::kFp8Channel, .scale_format = scales});
  }
  for (const uint32_t group : {3u, 128u}) {
    cases.push_back({.format = Format::kFp8Block, .group_cols = group});
  }
  cases.push_back({.format = Format::kGptq4, .act_order = true});
  for (const Format format : {Format::kGptq4, Format::kAwq4}) {
    cases.push_back({.format = format, .group_cols = 8});
    cases.push_back({.format = format, .group_cols = 3});
  }
  return cases;
}

}  // namespace penstock
