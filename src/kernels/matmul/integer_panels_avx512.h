// How 16 rows of a stored matrix come into vector registers for the integer product, a row to a
// lane: unsigned codes in words of four columns, and for each group of columns the factor and the
// offset with which w = factor code + offset. Only for files named *_avx512.cc.
//
// Stored rows hold their own codes one after the other, so a word of each of 16 rows is a
// transposition. It costs less than the sums over lanes that a row in a register would need, and
// spares the formats a second layout.
//
// Each struct below has
//   kGroup          columns that share a factor and an offset
//   kStepGroups     groups whose factors load() brings at a time
//   kParts, kPartGroups  a step's codes come in kParts parts of kPartGroups groups each
//   n_steps         of a row; the last may go beyond the row's end, with factors and offsets of 0
//   load()          makes ready the step's factors and offsets
//   factors(g), offsets(g)  of group g of the step
//   codes(part, to)         kPartGroups * kGroup / 4 words of the part's groups
//   group_of(part, i)       which group of the step the i-th group of a part is
//   advance()       to the next step
#pragma once

#include <immintrin.h>

#include "base/integers.h"
#include "kernels/matmul/scales_x86.h"

namespace penstock {
namespace {

inline constexpr int kPanelRows = 16;

// Where a panel's rows are read. Every fourth has a pointer, and the three behind it are reached
// from there: 16 pointers would not stay in registers.
class RowStarts {
 public:
  RowStarts(const uint8_t* first, size_t stride)
      : fours_{first, first + 4 * stride, first + 8 * stride, first + 12 * stride},
        stride_(stride),
        three_strides_(3 * stride) {}
  [[gnu::always_inline]] const uint8_t* of(int row) const {
    const uint8_t* const four = fours_[row / 4];
    return row % 4 == 3 ? four + three_strides_ : four + static_cast<size_t>(row % 4) * stride_;
  }
  [[gnu::always_inline]] void advance(int64_t bytes) {
#pragma GCC unroll 4
    for (const uint8_t*& four : fours_) four += bytes;
  }
  // The 4 bytes at `offset` of each row.
  [[gnu::always_inline]] __m512i words(int64_t offset) const {
    const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(count, _mm512_set1_epi32(static_cast<int>(stride_)));
    return _mm512_i32gather_epi32(at, fours_[0] + offset, 1);
  }

 private:
  const uint8_t* fours_[4];
  size_t stride_, three_strides_;
};

// to[c]: word c of the 16 bytes that load(row) gives for each of 16 rows.
template <class Load>
[[gnu::always_inline]] inline void four_words(Load load, __m512i* to) {
  __m512i fours[4];  // [i]: rows i, i + 4, i + 8, i + 12
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m512i four = _mm512_castsi128_si512(load(i));
    four = _mm512_inserti32x4(four, load(i + 4), 1);
    four = _mm512_inserti32x4(four, load(i + 8), 2);
    fours[i] = _mm512_inserti32x4(four, load(i + 12), 3);
  }
  const __m512i low_01 = _mm512_unpacklo_epi32(fours[0], fours[1]);
  const __m512i high_01 = _mm512_unpackhi_epi32(fours[0], fours[1]);
  const __m512i low_23 = _mm512_unpacklo_epi32(fours[2], fours[3]);
  const __m512i high_23 = _mm512_unpackhi_epi32(fours[2], fours[3]);
  to[0] = _mm512_unpacklo_epi64(low_01, low_23);
  to[1] = _mm512_unpackhi_epi64(low_01, low_23);
  to[2] = _mm512_unpacklo_epi64(high_01, high_23);
  to[3] = _mm512_unpackhi_epi64(high_01, high_23);
}

[[gnu::always_inline]] inline __m128i load_16(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

[[gnu::always_inline]] inline __m512i low_nibbles(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F));
}
[[gnu::always_inline]] inline __m512i high_nibbles(__m512i bytes) {
  return low_nibbles(_mm512_srli_epi16(bytes, 4));
}

[[gnu::always_inline]] inline __m512 low_halves(__m512i words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}
[[gnu::always_inline]] inline __m512 high_halves(__m512i words) {
  return low_halves(_mm512_srli_epi32(words, 16));
}

// 12 more than twice the value of each e2m1 code.
[[gnu::always_inline]] inline __m512i e2m1_codes(__m512i nibbles) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}
// For those codes.
[[gnu::always_inline]] inline __m512 e2m1_factors(__m512 scales) {
  return _mm512_mul_ps(scales, _mm512_set1_ps(0.5F));
}
[[gnu::always_inline]] inline __m512 e2m1_offsets(__m512 scales) {
  return _mm512_mul_ps(scales, _mm512_set1_ps(-6.0F));
}

// 16 numbers from the lowest byte of each word (tensor/scalar_types.h has the formats).
[[gnu::always_inline]] inline __m512 from_e8m0(__m512i words) {
  const __m512i bytes = _mm512_and_si512(words, _mm512_set1_epi32(0xFF));
  const __mmask16 zero = _mm512_testn_epi32_mask(bytes, bytes);
  const __mmask16 nan = _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(0xFF));
  __m512i bits = _mm512_slli_epi32(bytes, 23);
  bits = _mm512_mask_mov_epi32(bits, zero, _mm512_set1_epi32(0x00400000));  // 2^-127
  bits = _mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7FC00000));
  return _mm512_castsi512_ps(bits);
}

// e4m3 through f16, whose exponent has the same place but a bias 8 higher. `nan`: what its NaN code
// stands for.
template <bool kSigned>
[[gnu::always_inline]] inline __m512 from_e4m3(__m512i words, float nan) {
  const __m512i magnitudes = _mm512_and_si512(words, _mm512_set1_epi32(0x7F));
  __m512i halves = _mm512_slli_epi32(magnitudes, 7);
  if constexpr (kSigned) {
    const __m512i signs = _mm512_and_si512(words, _mm512_set1_epi32(0x80));
    halves = _mm512_or_si512(halves, _mm512_slli_epi32(signs, 8));
  }
  const __m512 scaled = _mm512_mul_ps(low_halves(halves), _mm512_set1_ps(256.0F));
  const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(magnitudes, _mm512_set1_epi32(0x7F));
  return _mm512_mask_mov_ps(scaled, is_nan, _mm512_set1_ps(nan));
}

// Formats whose blocks are one group of 32: 16 bytes of codes from `codes_at` on, low nibbles
// first.
template <int bytes, int codes_at>
struct NibblePanel {
  static constexpr int kGroup = 32, kStepGroups = 1, kParts = 1, kPartGroups = 1;
  RowStarts rows;
  int64_t n_steps;

  NibblePanel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes}, n_steps(w.cols / 32) {}
  static constexpr int group_of(int /*part*/, int i) { return i; }
  [[gnu::always_inline]] void advance() { rows.advance(bytes); }
  // The words at each block's start.
  [[gnu::always_inline]] __m512i heads() const { return rows.words(0); }
  [[gnu::always_inline]] void nibbles(__m512i* to) const {
    __m512i both[4];
    four_words([&](int row)
                   __attribute__((always_inline)) { return load_16(rows.of(row) + codes_at); },
               both);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      to[i] = low_nibbles(both[i]);
      to[4 + i] = high_nibbles(both[i]);
    }
  }
};

struct Q4_0Panel : NibblePanel<18, 2> {
  using NibblePanel::NibblePanel;
  __m512 d;

  [[gnu::always_inline]] void load() { d = low_halves(heads()); }
  [[gnu::always_inline]] __m512 factors(int) const { return d; }
  [[gnu::always_inline]] __m512 offsets(int) const {
    return _mm512_mul_ps(d, _mm512_set1_ps(-8.0F));
  }
  [[gnu::always_inline]] void codes(int, __m512i* to) const { nibbles(to); }
};

struct Q4_1Panel : NibblePanel<20, 4> {
  using NibblePanel::NibblePanel;
  __m512 d, m;

  [[gnu::always_inline]] void load() {
    const __m512i both = heads();
    d = low_halves(both);
    m = high_halves(both);
  }
  [[gnu::always_inline]] __m512 factors(int) const { return d; }
  [[gnu::always_inline]] __m512 offsets(int) const { return m; }
  [[gnu::always_inline]] void codes(int, __m512i* to) const { nibbles(to); }
};

struct Mxfp4BlockPanel : NibblePanel<17, 1> {
  using NibblePanel::NibblePanel;
  __m512 scales;

  [[gnu::always_inline]] void load() { scales = from_e8m0(heads()); }
  [[gnu::always_inline]] __m512 factors(int) const { return e2m1_factors(scales); }
  [[gnu::always_inline]] __m512 offsets(int) const { return e2m1_offsets(scales); }
  [[gnu::always_inline]] void codes(int, __m512i* to) const {
    nibbles(to);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) to[i] = e2m1_codes(to[i]);
  }
};

struct Q8_0Panel {
  static constexpr int kGroup = 32, kStepGroups = 1, kParts = 1, kPartGroups = 1;
  RowStarts rows;
  int64_t n_steps;
  __m512 d;

  Q8_0Panel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes}, n_steps(w.cols / 32) {}
  [[gnu::always_inline]] void advance() { rows.advance(34); }
  static constexpr int group_of(int /*part*/, int i) { return i; }
  [[gnu::always_inline]] void load() { d = low_halves(rows.words(0)); }
  [[gnu::always_inline]] __m512 factors(int) const { return d; }
  [[gnu::always_inline]] __m512 offsets(int) const {
    return _mm512_mul_ps(d, _mm512_set1_ps(-128.0F));
  }
  [[gnu::always_inline]] void codes(int, __m512i* to) const {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      four_words(
          [&](int row)
              __attribute__((always_inline)) { return load_16(rows.of(row) + 2 + 16 * half); },
          to + 4 * half);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      to[i] = _mm512_xor_si512(to[i], _mm512_set1_epi8(static_cast<char>(0x80)));
    }
  }
};

// Scales of four groups, a byte of each row's word to a group.
struct Fp4Scales {
  __m512 of[4];

  [[gnu::always_inline]] __m512 factors(int g) const { return e2m1_factors(of[g]); }
  [[gnu::always_inline]] __m512 offsets(int g) const { return e2m1_offsets(of[g]); }
};

// Codes and scales in separate runs; even columns in the low nibbles. A part is 16 bytes of codes.
template <int group>
struct SplitFp4Panel : Fp4Scales {
  static constexpr int kGroup = group, kStepGroups = 4;
  static constexpr int kPartGroups = 32 / group, kParts = kStepGroups / kPartGroups;
  RowStarts rows, scale_rows;
  int64_t groups_left, n_steps;

  SplitFp4Panel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes},
        scale_rows{w.scales + row * (w.cols / group), static_cast<size_t>(w.cols / group)},
        groups_left(w.cols / group),
        n_steps(ceil_div(groups_left, kStepGroups)) {}
  [[gnu::always_inline]] void advance() {
    rows.advance(16 * kParts);
    scale_rows.advance(kStepGroups);
    groups_left -= kStepGroups;
  }
  static constexpr int group_of(int part, int i) { return part * kPartGroups + i; }
  // Four scales of each row; what lies beyond a row's end is 0.
  [[gnu::always_inline]] __m512i scale_words() const {
    if (groups_left >= kStepGroups) return scale_rows.words(0);
    alignas(64) uint8_t words[kPanelRows * 4] = {};
    for (int row = 0; row < kPanelRows; ++row) {
      std::memcpy(words + 4 * row, scale_rows.of(row), static_cast<size_t>(groups_left));
    }
    return _mm512_load_si512(words);
  }
  [[gnu::always_inline]] void codes(int part, __m512i* to) const {
    __m512i both[4];
    const int64_t at = 16 * part;
    const int64_t n_bytes = groups_left * group / 2 - at;
    if (n_bytes >= 16) {
      four_words([&](int row) __attribute__((always_inline)) { return load_16(rows.of(row) + at); },
                 both);
    } else {
      const auto mask = static_cast<__mmask16>((1U << std::max(n_bytes, int64_t{0})) - 1);
      four_words([&](int row) __attribute__((
                     always_inline)) { return _mm_maskz_loadu_epi8(mask, rows.of(row) + at); },
                 both);
    }
    // Of four bytes 0 1 2 3 the codes are in 0 0 1 1 and in 2 2 3 3, low nibbles at even places.
    const __m512i first =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13));
    const __m512i second = _mm512_broadcast_i32x4(
        _mm_setr_epi8(2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = nibbles_by_turns(_mm512_shuffle_epi8(both[i], first));
      to[2 * i + 1] = nibbles_by_turns(_mm512_shuffle_epi8(both[i], second));
    }
  }

 private:
  [[gnu::always_inline]] static __m512i nibbles_by_turns(__m512i twice) {
    constexpr __mmask64 kOdd = 0xAAAAAAAAAAAAAAAA;
    return e2m1_codes(low_nibbles(_mm512_mask_mov_epi8(twice, kOdd, _mm512_srli_epi16(twice, 4))));
  }
};

struct Mxfp4Panel : SplitFp4Panel<32> {
  using SplitFp4Panel::SplitFp4Panel;
  [[gnu::always_inline]] void load() {
    const __m512i words = scale_words();
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) of[g] = from_e8m0(_mm512_srli_epi32(words, 8U * g));
  }
};

struct Nvfp4Panel : SplitFp4Panel<16> {
  using SplitFp4Panel::SplitFp4Panel;
  [[gnu::always_inline]] void load() {
    const __m512i words = scale_words();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      of[g] = from_e4m3</*kSigned=*/true>(_mm512_srli_epi32(words, 8U * g), kNan);
    }
  }
};

// GGUF's: 4 scales, then 8 bytes for each of 4 groups of 16, its first half in the low nibbles.
struct Nvfp4BlockPanel : Fp4Scales {
  static constexpr int kGroup = 16, kStepGroups = 4, kParts = 2, kPartGroups = 2;
  RowStarts rows;
  int64_t n_steps;

  Nvfp4BlockPanel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes}, n_steps(w.cols / 64) {}
  [[gnu::always_inline]] void advance() { rows.advance(36); }
  static constexpr int group_of(int part, int i) { return 2 * part + i; }
  [[gnu::always_inline]] void load() {
    const __m512i words = rows.words(0);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      of[g] = from_e4m3</*kSigned=*/false>(_mm512_srli_epi32(words, 8U * g), 0.0F);
    }
  }
  [[gnu::always_inline]] void codes(int part, __m512i* to) const {
    __m512i both[4];
    four_words([&](int row)
                   __attribute__((always_inline)) { return load_16(rows.of(row) + 4 + 16 * part); },
               both);
#pragma GCC unroll 2
    for (int group = 0; group < 2; ++group) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        to[4 * group + i] = e2m1_codes(low_nibbles(both[2 * group + i]));
        to[4 * group + 2 + i] = e2m1_codes(high_nibbles(both[2 * group + i]));
      }
    }
  }
};

// 256 columns; 32 bytes hold one group in their low nibbles and the next in their high ones.
struct Q4_KPanel {
  static constexpr int kGroup = 32, kStepGroups = 8, kParts = 4, kPartGroups = 2;
  RowStarts rows;
  int64_t n_steps;
  __m512 scales[8], minima[8];

  Q4_KPanel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes}, n_steps(w.cols / 256) {}
  [[gnu::always_inline]] void advance() { rows.advance(144); }
  static constexpr int group_of(int part, int i) { return 2 * part + i; }
  // The 6-bit codes of groups j and j + 4 (docs/formats.md): six bits of `low`'s byte j; four of
  // `high`'s, from bit `at` on, below the two bits that `low` has left.
  [[gnu::always_inline]] static void two_groups(__m512i low, __m512i high, unsigned at, unsigned j,
                                                __m512 factor, __m512* to) {
    const __m512i byte = _mm512_srli_epi32(low, 8 * j);
    const __m512i upper = _mm512_and_si512(_mm512_srli_epi32(byte, 2), _mm512_set1_epi32(0x30));
    const __m512i lower =
        _mm512_and_si512(_mm512_srli_epi32(high, 8 * j + at), _mm512_set1_epi32(0x0F));
    const auto times_factor = [&](__m512i codes) __attribute__((always_inline)) {
      return _mm512_mul_ps(_mm512_cvtepi32_ps(codes), factor);
    };
    to[j] = times_factor(_mm512_and_si512(byte, _mm512_set1_epi32(0x3F)));
    to[4 + j] = times_factor(_mm512_or_si512(lower, upper));
  }
  [[gnu::always_inline]] void load() {
    const __m512i halves = rows.words(0);
    const __m512i a = rows.words(4);
    const __m512i b = rows.words(8);
    const __m512i c = rows.words(12);
    const __m512 d = low_halves(halves);
    const __m512 minus_dmin = _mm512_sub_ps(_mm512_setzero_ps(), high_halves(halves));
#pragma GCC unroll 4
    for (unsigned j = 0; j < 4; ++j) {
      two_groups(a, c, 0, j, d, scales);
      two_groups(b, c, 4, j, minus_dmin, minima);
    }
  }
  [[gnu::always_inline]] __m512 factors(int g) const { return scales[g]; }
  [[gnu::always_inline]] __m512 offsets(int g) const { return minima[g]; }
  [[gnu::always_inline]] void codes(int part, __m512i* to) const {
    __m512i both[8];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      four_words([&](int row) __attribute__((
                     always_inline)) { return load_16(rows.of(row) + 16 + 32 * part + 16 * half); },
                 both + 4 * half);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      to[i] = low_nibbles(both[i]);
      to[8 + i] = high_nibbles(both[i]);
    }
  }
};

// 256 columns in two halves. Of each: 64 bytes of low nibbles, for the first 64 columns their lower
// and for the others their upper four bits, and 32 bytes of two upper bits for each 32 columns. A
// part is 16 bytes of the latter: every second of the half's 8 groups.
struct Q6_KPanel {
  static constexpr int kGroup = 16, kStepGroups = 16, kParts = 4, kPartGroups = 4;
  RowStarts rows;
  int64_t n_steps;
  __m512 scales[16];

  Q6_KPanel(const StoredRows& w, int64_t row)
      : rows{w.data + static_cast<size_t>(row) * w.row_bytes, w.row_bytes}, n_steps(w.cols / 256) {}
  [[gnu::always_inline]] void advance() { rows.advance(210); }
  static constexpr int group_of(int part, int i) { return part / 2 * 8 + 2 * i + part % 2; }
  [[gnu::always_inline]] void load() {
    const __m512 d = high_halves(rows.words(206));  // the block's last two bytes
    __m512i words[4];
    four_words([&](int row) __attribute__((always_inline)) { return load_16(rows.of(row) + 192); },
               words);
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) {
      const __m512i first = _mm512_slli_epi32(words[g / 4], 8U * (3 - g % 4));
      scales[g] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srai_epi32(first, 24)), d);
    }
  }
  [[gnu::always_inline]] __m512 factors(int g) const { return scales[g]; }
  [[gnu::always_inline]] __m512 offsets(int g) const {
    return _mm512_mul_ps(scales[g], _mm512_set1_ps(-32.0F));
  }
  [[gnu::always_inline]] void codes(int part, __m512i* to) const {
    const int64_t half = part / 2;
    const int64_t slice = 16 * (part % 2);
    const auto words = [&](int64_t at, __m512i* four) __attribute__((always_inline)) {
      four_words([&](int row)
                     __attribute__((always_inline)) { return load_16(rows.of(row) + at + slice); },
                 four);
    };
    __m512i first[4], second[4], two_bits[4];
    words(64 * half, first);
    words(64 * half + 32, second);
    words(128 + 32 * half, two_bits);
    const __m512i kTwo = _mm512_set1_epi8(0x30);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i bits = two_bits[i];
      const auto join = [&](__m512i low, __m512i high) __attribute__((always_inline)) {
        return _mm512_or_si512(low, _mm512_and_si512(high, kTwo));
      };
      to[i] = join(low_nibbles(first[i]), _mm512_slli_epi16(bits, 4));
      to[4 + i] = join(low_nibbles(second[i]), _mm512_slli_epi16(bits, 2));
      to[8 + i] = join(high_nibbles(first[i]), bits);
      to[12 + i] = join(high_nibbles(second[i]), _mm512_srli_epi16(bits, 2));
    }
  }
};

}  // namespace
}  // namespace penstock
