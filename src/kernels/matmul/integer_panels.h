// How the rows of a stored matrix come into vector registers for the integer product, a row to a
// lane: unsigned codes in words of four columns, and for each group of columns the factor and the
// offset with which w = factor code + offset. Included by ISA files after their integer_lanes_*.h,
// which defines kPanelRows, Words, Floats and what is done with them.
//
// Each struct below has
//   kGroup          columns that share a factor and an offset
//   kLargestCode
//   kStepGroups     groups whose factors load() brings at a time
//   kParts, kPartGroups  a step's codes come in kParts parts of kPartGroups groups each
//   kStored         words of each row in which a part is stored
//   n_steps         of a row; the last may go beyond the row's end, with factors and offsets of 0
//   load()          makes ready the step's factors and offsets
//   factors(g), offsets(g)  of group g of the step
//   stored(part, to)        the part's stored words
//   codes(stored, i, to)    kGroup / 4 words of codes, of the part's i-th group
//   group_of(part, i)       which group of the step that is
//   advance()       to the next step
//   Ahead(w, row, n)  asks for a little of what comes behind the panel at `row`, n times
// Most are templates over Blocks, the blocks of a panel's rows in one of the two layouts
// (integer_blocks.h).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/integers.h"
#include "kernels/matmul/integer_blocks.h"
#include "kernels/matmul/scales_x86.h"

namespace penstock {
namespace {

[[gnu::always_inline]] inline Words low_nibbles(Words bytes) { return bytes & all_bytes(0x0F); }
[[gnu::always_inline]] inline Words high_nibbles(Words bytes) {
  return low_nibbles(shift_right_16(bytes, 4));
}

[[gnu::always_inline]] inline Floats high_halves(Words words) {
  return low_halves(shift_right_32(words, 16));
}

// 12 more than twice the value of each e2m1 code.
inline constexpr int kLargestE2m1Code = 24;
[[gnu::always_inline]] inline Words e2m1_codes(Words nibbles) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  return shuffle_16(repeat_16(table), nibbles);
}
// For those codes.
[[gnu::always_inline]] inline Floats e2m1_factors(Floats scales) {
  return scales * all_floats(0.5F);
}
[[gnu::always_inline]] inline Floats e2m1_offsets(Floats scales) {
  return scales * all_floats(-6.0F);
}

// Numbers from the lowest byte of each word (tensor/scalar_types.h has the formats).
[[gnu::always_inline]] inline Floats from_e8m0(Words words) {
  const Words bytes = words & all_words(0xFF);
  const Floats powers = as_floats(shift_left_32(bytes, 23));
  const Floats least = all_floats(0x1p-127F);
  const Floats nan = all_floats(std::numeric_limits<float>::quiet_NaN());
  return where_equal(bytes, all_words(0xFF), nan, where_equal(bytes, all_words(0), least, powers));
}

// e4m3 through f16, whose exponent has the same place but a bias 8 higher. `nan`: what its NaN code
// stands for.
template <bool kSigned>
[[gnu::always_inline]] inline Floats from_e4m3(Words words, float nan) {
  const Words magnitudes = words & all_words(0x7F);
  Words halves = shift_left_32(magnitudes, 7);
  if constexpr (kSigned) halves = halves | shift_left_32(words & all_words(0x80), 8);
  return where_equal(magnitudes, all_words(0x7F), all_floats(nan),
                     low_halves(halves) * all_floats(256.0F));
}

// Rows of blocks, a step each.
template <class Blocks>
struct BlockPanel {
  Blocks blocks;
  int64_t n_steps;

  BlockPanel(const StoredRows& w, int64_t row)
      : blocks(w.data, w.row_bytes, w.cols, row), n_steps(w.cols / Blocks::kCols) {}
  [[gnu::always_inline]] void advance() { blocks.advance(); }
};

// Formats whose blocks are one group of 32: 16 bytes of codes from `codes_at` on, low nibbles
// first.
template <class Blocks, int codes_at>
struct NibblePanel : BlockPanel<Blocks> {
  static constexpr int kGroup = 32, kStepGroups = 1, kParts = 1, kPartGroups = 1;
  using Ahead = typename Blocks::template Ahead<kParts>;
  static constexpr int kLargestCode = 15, kStored = 4;
  using BlockPanel<Blocks>::BlockPanel;
  using BlockPanel<Blocks>::blocks;

  static constexpr int group_of(int /*part*/, int i) { return i; }
  [[gnu::always_inline]] void stored(int /*part*/, Words* to) const {
    blocks.four_words(codes_at, to);
  }
  [[gnu::always_inline]] static void codes(const Words* stored, int /*i*/, Words* to) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      to[w] = low_nibbles(stored[w]);
      to[4 + w] = high_nibbles(stored[w]);
    }
  }
};

template <class Blocks>
struct Q4_0Panel : NibblePanel<Blocks, 2> {
  using NibblePanel<Blocks, 2>::NibblePanel;
  using NibblePanel<Blocks, 2>::blocks;
  Floats d;

  [[gnu::always_inline]] void load() { d = blocks.halves_at(0); }
  [[gnu::always_inline]] Floats factors(int) const { return d; }
  [[gnu::always_inline]] Floats offsets(int) const { return d * all_floats(-8.0F); }
};

template <class Blocks>
struct Q4_1Panel : NibblePanel<Blocks, 4> {
  using NibblePanel<Blocks, 4>::NibblePanel;
  using NibblePanel<Blocks, 4>::blocks;
  Floats d, m;

  [[gnu::always_inline]] void load() {
    const Words both = blocks.words_at(0);
    d = low_halves(both);
    m = high_halves(both);
  }
  [[gnu::always_inline]] Floats factors(int) const { return d; }
  [[gnu::always_inline]] Floats offsets(int) const { return m; }
};

template <class Blocks>
struct Mxfp4BlockPanel : NibblePanel<Blocks, 1> {
  using NibblePanel<Blocks, 1>::NibblePanel;
  using NibblePanel<Blocks, 1>::blocks;
  static constexpr int kLargestCode = kLargestE2m1Code;
  Floats scales;

  [[gnu::always_inline]] void load() { scales = from_e8m0(blocks.bytes_at(0)); }
  [[gnu::always_inline]] Floats factors(int) const { return e2m1_factors(scales); }
  [[gnu::always_inline]] Floats offsets(int) const { return e2m1_offsets(scales); }
  [[gnu::always_inline]] static void codes(const Words* stored, int i, Words* to) {
    NibblePanel<Blocks, 1>::codes(stored, i, to);
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) to[w] = e2m1_codes(to[w]);
  }
};

template <class Blocks>
struct Q8_0Panel : BlockPanel<Blocks> {
  static constexpr int kGroup = 32, kStepGroups = 1, kParts = 1, kPartGroups = 1;
  using Ahead = typename Blocks::template Ahead<kParts>;
  static constexpr int kLargestCode = 255, kStored = 8;
  using BlockPanel<Blocks>::BlockPanel;
  using BlockPanel<Blocks>::blocks;
  Floats d;

  static constexpr int group_of(int /*part*/, int i) { return i; }
  [[gnu::always_inline]] void load() { d = blocks.halves_at(0); }
  [[gnu::always_inline]] Floats factors(int) const { return d; }
  [[gnu::always_inline]] Floats offsets(int) const { return d * all_floats(-128.0F); }
  [[gnu::always_inline]] void stored(int /*part*/, Words* to) const {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) blocks.four_words(2 + 16 * half, to + int64_t{4} * half);
  }
  // 128 more than the stored codes.
  [[gnu::always_inline]] static void codes(const Words* stored, int /*i*/, Words* to) {
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) to[w] = stored[w] ^ all_bytes(0x80);
  }
};

// Scales of four groups, a byte of each row's word to a group.
struct Fp4Scales {
  static constexpr int kLargestCode = kLargestE2m1Code;
  Floats of[4];

  [[gnu::always_inline]] Floats factors(int g) const { return e2m1_factors(of[g]); }
  [[gnu::always_inline]] Floats offsets(int g) const { return e2m1_offsets(of[g]); }
};

// 16 bytes of codes, 32 columns; even columns in the low nibbles.
template <int64_t group>
struct SplitFp4Codes : Fp4Scales {
  static constexpr int kGroup = group, kPartGroups = 32 / group, kStored = 4;

  static constexpr int group_of(int part, int i) { return part * kPartGroups + i; }
  [[gnu::always_inline]] static void codes(const Words* stored, int i, Words* to) {
    // Of four bytes 0 1 2 3 the codes are in 0 0 1 1 and in 2 2 3 3, low nibbles at even places.
    const __m128i first = _mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m128i second = _mm_setr_epi8(2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15);
#pragma GCC unroll 4
    for (int64_t w = 0; w < group / 8; ++w) {
      const Words eight = stored[i * group / 8 + w];
      to[2 * w] = nibbles_by_turns(shuffle_16(eight, repeat_16(first)));
      to[2 * w + 1] = nibbles_by_turns(shuffle_16(eight, repeat_16(second)));
    }
  }
  // From the lowest byte of each word.
  [[gnu::always_inline]] static Floats scales_from(Words words) {
    if constexpr (group == 32) {
      return from_e8m0(words);
    } else {
      return from_e4m3</*kSigned=*/true>(words, std::numeric_limits<float>::quiet_NaN());
    }
  }

 private:
  [[gnu::always_inline]] static Words nibbles_by_turns(Words twice) {
    return e2m1_codes((twice & all_words(0x000F000F)) |
                      (shift_right_16(twice, 4) & all_words(0x0F000F00)));
  }
};

// By rows, four scales of each at a time. A part is 16 bytes of codes.
template <int64_t group>
struct SplitFp4Rows : SplitFp4Codes<group> {
  static constexpr int kStepGroups = 4, kParts = kStepGroups * group / 32;
  using SplitFp4Codes<group>::of;
  struct Ahead {
    penstock::Ahead data, scales;

    Ahead(const StoredRows& w, int64_t row, int64_t n_parts)
        : data(next_panel(w.data, w.row_bytes, row, n_parts)),
          scales(next_panel(w.scales, static_cast<size_t>(w.cols / group), row, n_parts)) {}
    [[gnu::always_inline]] void ask() {
      data.ask();
      scales.ask();
    }
  };
  PanelRows rows, scale_rows;
  int64_t groups_left, n_steps;

  SplitFp4Rows(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes},
        scale_rows{w.scales + row * (w.cols / group), static_cast<size_t>(w.cols / group)},
        groups_left(w.cols / group),
        n_steps(ceil_div(groups_left, kStepGroups)) {}
  [[gnu::always_inline]] void advance() {
    rows.advance(int64_t{16} * kParts);
    scale_rows.advance(kStepGroups);
    groups_left -= kStepGroups;
  }
  [[gnu::always_inline]] void load() {
    const Words words = scale_words();
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) of[g] = this->scales_from(shift_right_32(words, 8 * g));
  }
  [[gnu::always_inline]] void stored(int part, Words* to) const {
    const int64_t at = int64_t{16} * part;
    const int64_t n_bytes = groups_left * group / 2 - at;
    if (n_bytes >= 16) {
      transposed_words(
          [&](int row) __attribute__((always_inline)) { return load_16(rows.of(row) + at); }, to);
    } else {
      const int64_t n = std::max(n_bytes, int64_t{0});
      transposed_words(
          [&](int row)
              __attribute__((always_inline)) { return load_first_bytes(rows.of(row) + at, n); },
          to);
    }
  }

 private:
  // What lies beyond a row's end is 0.
  [[gnu::always_inline]] Words scale_words() const {
    if (groups_left >= kStepGroups) return row_words(scale_rows, 0);
    uint8_t bytes[sizeof(Words)] = {};
    for (int row = 0; row < kPanelRows; ++row) {
      std::memcpy(bytes + int64_t{4} * row, scale_rows.of(row), static_cast<size_t>(groups_left));
    }
    Words words;
    std::memcpy(&words, bytes, sizeof words);
    return words;
  }
};

// Interleaved, 32 columns at a time.
template <Format format>
struct SplitFp4Interleaved : SplitFp4Codes<interleaved_scales(format).bytes == 1 ? 32 : 16> {
  static constexpr int kStepGroups = interleaved_scales(format).bytes, kParts = 1;
  static constexpr int64_t kScaleDistance = 256;
  using SplitFp4Codes<32 / kStepGroups>::of;
  struct Ahead {
    typename InterleavedBlocks<format>::template Ahead<kParts> data;
    EvenAhead<kInterleavedRows * kStepGroups> scales;

    Ahead(const StoredRows& w, int64_t row, int64_t n_parts)
        : data(w, row, n_parts), scales(first_scales(w, row) + kScaleDistance) {}
    [[gnu::always_inline]] void ask() {
      data.ask();
      scales.ask();
    }
  };
  InterleavedBlocks<format> blocks;
  const uint8_t* scales;
  int64_t n_steps;

  SplitFp4Interleaved(const StoredRows& w, int64_t row)
      : blocks(w.data, w.row_bytes, w.cols, row),
        scales(first_scales(w, row) + row % kInterleavedRows),
        n_steps(w.cols / 32) {}
  [[gnu::always_inline]] void advance() {
    blocks.advance();
    scales += kInterleavedRows * kStepGroups;
  }
  [[gnu::always_inline]] void load() {
#pragma GCC unroll 2
    for (int g = 0; g < kStepGroups; ++g) {
      of[g] = this->scales_from(load_bytes(scales + kInterleavedRows * g));
    }
  }
  [[gnu::always_inline]] void stored(int /*part*/, Words* to) const { blocks.four_words(0, to); }

 private:
  static const uint8_t* first_scales(const StoredRows& w, int64_t row) {
    return w.scales + row / kInterleavedRows * kInterleavedRows * (w.cols / 32) * kStepGroups;
  }
};

// GGUF's: 4 scales, then 8 bytes for each of 4 groups of 16, its first half in the low nibbles.
template <class Blocks>
struct Nvfp4BlockPanel : Fp4Scales, BlockPanel<Blocks> {
  static constexpr int kGroup = 16, kStepGroups = 4, kParts = 2, kPartGroups = 2;
  using Ahead = typename Blocks::template Ahead<kParts>;
  static constexpr int kStored = 4;
  using BlockPanel<Blocks>::BlockPanel;
  using BlockPanel<Blocks>::blocks;

  static constexpr int group_of(int part, int i) { return 2 * part + i; }
  [[gnu::always_inline]] void load() {
    const Words words = blocks.words_at(0);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      of[g] = from_e4m3</*kSigned=*/false>(shift_right_32(words, 8 * g), 0.0F);
    }
  }
  [[gnu::always_inline]] void stored(int part, Words* to) const {
    blocks.four_words(4 + 16 * part, to);
  }
  [[gnu::always_inline]] static void codes(const Words* stored, int i, Words* to) {
#pragma GCC unroll 2
    for (int w = 0; w < 2; ++w) {
      to[w] = e2m1_codes(low_nibbles(stored[2 * i + w]));
      to[2 + w] = e2m1_codes(high_nibbles(stored[2 * i + w]));
    }
  }
};

// 256 columns; 32 bytes hold one group in their low nibbles and the next in their high ones.
template <class Blocks>
struct Q4_KPanel : BlockPanel<Blocks> {
  static constexpr int kGroup = 32, kStepGroups = 8, kParts = 4, kPartGroups = 2;
  using Ahead = typename Blocks::template Ahead<kParts>;
  static constexpr int kLargestCode = 15, kStored = 8;
  using BlockPanel<Blocks>::BlockPanel;
  using BlockPanel<Blocks>::blocks;
  Floats scales[8], minima[8];

  static constexpr int group_of(int part, int i) { return 2 * part + i; }
  // The 6-bit codes of groups j and j + 4 (docs/formats.md): six bits of `low`'s byte j; four of
  // `high`'s, from bit `at` on, below the two bits that `low` has left.
  [[gnu::always_inline]] static void two_groups(Words low, Words high, int at, int j, Floats factor,
                                                Floats* to) {
    const Words byte = shift_right_32(low, 8 * j);
    const Words upper = shift_right_32(byte, 2) & all_words(0x30);
    const Words lower = shift_right_32(high, 8 * j + at) & all_words(0x0F);
    const auto times_factor = [&](Words codes) __attribute__((always_inline)) {
      return to_floats(codes) * factor;
    };
    to[j] = times_factor(byte & all_words(0x3F));
    to[4 + j] = times_factor(lower | upper);
  }
  [[gnu::always_inline]] void load() {
    Words heads[4];
    blocks.four_words(0, heads);
    const auto [halves, a, b, c] = heads;
    const Floats d = low_halves(halves);
    const Floats minus_dmin = all_floats(0.0F) - high_halves(halves);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      two_groups(a, c, 0, j, d, scales);
      two_groups(b, c, 4, j, minus_dmin, minima);
    }
  }
  [[gnu::always_inline]] Floats factors(int g) const { return scales[g]; }
  [[gnu::always_inline]] Floats offsets(int g) const { return minima[g]; }
  [[gnu::always_inline]] void stored(int part, Words* to) const {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      blocks.four_words(16 + 32 * part + 16 * half, to + int64_t{4} * half);
    }
  }
  [[gnu::always_inline]] static void codes(const Words* stored, int i, Words* to) {
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) {
      to[w] = i == 0 ? low_nibbles(stored[w]) : high_nibbles(stored[w]);
    }
  }
};

// 256 columns in two halves. Of each: 64 bytes of low nibbles, for the first 64 columns their lower
// and for the others their upper four bits, and 32 bytes of two upper bits for each 32 columns. A
// part is 16 bytes of the latter: every second of the half's 8 groups.
template <class Blocks>
struct Q6_KPanel : BlockPanel<Blocks> {
  static constexpr int kGroup = 16, kStepGroups = 16, kParts = 4, kPartGroups = 4;
  using Ahead = typename Blocks::template Ahead<kParts>;
  static constexpr int kLargestCode = 63, kStored = 12;
  using BlockPanel<Blocks>::BlockPanel;
  using BlockPanel<Blocks>::blocks;
  Floats scales[16];

  static constexpr int group_of(int part, int i) { return part / 2 * 8 + 2 * i + part % 2; }
  [[gnu::always_inline]] void load() {
    const Floats d = blocks.halves_at(208);
    Words words[4];
    blocks.four_words(192, words);
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
      const Words first = shift_left_32(words[g / 4], 8 * (3 - g % 4));
      scales[g] = to_floats(shift_right_signed_32(first, 24)) * d;
    }
  }
  [[gnu::always_inline]] Floats factors(int g) const { return scales[g]; }
  [[gnu::always_inline]] Floats offsets(int g) const { return scales[g] * all_floats(-32.0F); }
  // Four words of lower bits for the part's first and third group, four for the others, and four of
  // upper bits.
  [[gnu::always_inline]] void stored(int part, Words* to) const {
    const int half = part / 2;
    const int slice = 16 * (part % 2);
    blocks.four_words(64 * half + slice, to);
    blocks.four_words(64 * half + 32 + slice, to + 4);
    blocks.four_words(128 + 32 * half + slice, to + 8);
  }
  [[gnu::always_inline]] static void codes(const Words* stored, int i, Words* to) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const Words lower = stored[4 * (i % 2) + w];
      const Words upper = i < 2 ? shift_left_16(stored[8 + w], 4 - 2 * i)
                                : shift_right_16(stored[8 + w], 2 * i - 4);
      to[w] = (i < 2 ? low_nibbles(lower) : high_nibbles(lower)) | (upper & all_bytes(0x30));
    }
  }
};

}  // namespace
}  // namespace penstock
