// How 32 columns of a stored row come into a register as bf16: each weight widened to float32 as
// tensor/codec.h does, then rounded. Only for files named *_amx.cc.
//
// A code of four bits has 16 values in a group: those are widened and rounded, and the codes look
// theirs up.
//
// Each struct below is made with a matrix, and has
//   row(r)         where row r's bytes start
//   tile(row, j)   columns 32 j to 32 j + 31 of such a row; 0 beyond the matrix' last column
#pragma once

#include <immintrin.h>

#include <bit>

#include "kernels/matmul/scales_x86.h"

namespace penstock {
namespace {

[[gnu::always_inline]] inline __m512i to_bf16(__m512 low, __m512 high) {
  return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// The values of 16 codes, for look_up.
[[gnu::always_inline]] inline __m512i table_of(__m512 values) {
  return _mm512_castsi256_si512(std::bit_cast<__m256i>(_mm512_cvtneps_pbh(values)));
}
[[gnu::always_inline]] inline __m512i look_up(__m512i table, __m512i codes) {
  return _mm512_permutexvar_epi16(codes, table);
}

[[gnu::always_inline]] inline __m512 numbers_to_15() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
[[gnu::always_inline]] inline __m512 e2m1_values() {
  return _mm512_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6);
}

// 32 codes of four bits as 16-bit numbers, from 16 bytes: the low nibbles, then the high ones.
[[gnu::always_inline]] inline __m512i low_then_high(const uint8_t* bytes) {
  const __m256i twice = _mm256_broadcastsi128_si256(load_16(bytes));
  const __m256i shifted = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
  return _mm512_cvtepu8_epi16(_mm256_and_si256(shifted, _mm256_set1_epi8(0x0F)));
}

// The f16 at `bytes` and, where asked for, the next one, in every lane. Reads 4 bytes; few
// shuffles, which is what unpacking is short of.
struct Halves {
  __m512 both;

  [[gnu::always_inline]] explicit Halves(const uint8_t* bytes)
      : both(_mm512_cvtph_ps(_mm256_set1_epi32(static_cast<int>(word_at(bytes))))) {}
  [[gnu::always_inline]] __m512 first() const { return _mm512_moveldup_ps(both); }
  [[gnu::always_inline]] __m512 second() const { return _mm512_movehdup_ps(both); }
};

// A matrix in blocks: kBlock columns in `bytes` bytes.
template <int bytes, int kBlock = 32>
struct BlockRows {
  const uint8_t* data;
  size_t row_bytes;

  explicit BlockRows(const StoredRows& w) : data(w.data), row_bytes(w.row_bytes) {}
  [[gnu::always_inline]] const uint8_t* row(int64_t r) const {
    return data + static_cast<size_t>(r) * row_bytes;
  }
  [[gnu::always_inline]] static const uint8_t* block(const uint8_t* row, int64_t j) {
    return row + j * 32 / kBlock * bytes;
  }
};

struct Q4_0Rows : BlockRows<18> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    const __m512 levels = _mm512_sub_ps(numbers_to_15(), _mm512_set1_ps(8.0F));
    return look_up(table_of(_mm512_mul_ps(Halves(b).first(), levels)), low_then_high(b + 2));
  }
};

struct Q4_1Rows : BlockRows<20> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    const Halves d_m(b);
    const __m512 scaled = _mm512_mul_ps(d_m.first(), numbers_to_15());
    return look_up(table_of(_mm512_add_ps(scaled, d_m.second())), low_then_high(b + 4));
  }
};

struct Mxfp4BlockRows : BlockRows<17> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    return look_up(table_of(_mm512_mul_ps(_mm512_set1_ps(kE8m0Scales.of[b[0]]), e2m1_values())),
                   low_then_high(b + 1));
  }
};

struct Q8_0Rows : BlockRows<34> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    const __m512 d = Halves(b).first();
    const auto sixteen = [&](const uint8_t* codes) __attribute__((always_inline)) {
      return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(codes))));
    };
    return to_bf16(sixteen(b + 2), sixteen(b + 18));
  }
};

struct Q4_KRows : BlockRows<144, 256> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    const int64_t group = j % 8;
    alignas(16) uint8_t scales[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(scales), k_scale_codes(b));
    const float scale = half_at(b) * static_cast<float>(scales[group]);
    const float min = half_at(b + 2) * static_cast<float>(scales[8 + group]);
    const __m512 values =
        _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale), numbers_to_15()), _mm512_set1_ps(min));
    const __m512i bytes = _mm512_cvtepu8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 16 + 32 * (group / 2))));
    const __m512i codes = _mm512_srl_epi16(bytes, _mm_cvtsi32_si128(group % 2 == 0 ? 0 : 4));
    return look_up(table_of(values), _mm512_and_si512(codes, _mm512_set1_epi16(0x0F)));
  }
};

// GGUF's NVFP4: 4 scales, then 8 bytes for each of 4 groups of 16, its first half in the low
// nibbles.
struct Nvfp4BlockRows : BlockRows<36, 64> {
  using BlockRows::BlockRows;
  [[gnu::always_inline]] static __m512i tile(const uint8_t* row, int64_t j) {
    const uint8_t* const b = block(row, j);
    const int64_t first = j % 2 * 2;
    const auto group = [&](int64_t g) __attribute__((always_inline)) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b + 4 + 8 * g));
      const __m128i nibbles =
          _mm_and_si128(_mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4)), _mm_set1_epi8(0x0F));
      const __m512 scale = _mm512_set1_ps(kUe4m3Scales.of[b[g]]);
      return _mm512_castsi512_si256(look_up(table_of(_mm512_mul_ps(scale, e2m1_values())),
                                            _mm512_castsi256_si512(_mm256_cvtepu8_epi16(nibbles))));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(group(first)), group(first + 1), 1);
  }
};

// Codes and scales in separate runs; even columns in the low nibbles.
template <int group>
struct SplitFp4Rows {
  static constexpr int64_t kTileGroups = 32 / group;
  const uint8_t* data;
  const uint8_t* scales;
  size_t row_bytes;
  int64_t n_groups;

  struct Row {
    const uint8_t* codes;
    const uint8_t* scales;
  };

  explicit SplitFp4Rows(const StoredRows& w)
      : data(w.data), scales(w.scales), row_bytes(w.row_bytes), n_groups(w.cols / group) {}
  [[gnu::always_inline]] Row row(int64_t r) const {
    return {data + static_cast<size_t>(r) * row_bytes, scales + r * n_groups};
  }
  [[gnu::always_inline]] __m512i tile_by(const ScaleTable& table, const Row& row, int64_t j) const {
    const int64_t left = n_groups - j * kTileGroups;
    const auto mask = static_cast<__mmask16>(left >= kTileGroups ? 0xFFFF : 0x00FF);
    // Each byte twice, the second time for its high nibble.
    const __m256i words = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(mask, row.codes + 16 * j));
    const __m256i twice = _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)),
                                           _mm256_set1_epi8(0x0F));
    const __m512i codes = _mm512_cvtepu8_epi16(twice);
    const uint8_t* const scale = row.scales + j * kTileGroups;
    const auto values = [&](uint8_t code) __attribute__((always_inline)) {
      return table_of(_mm512_mul_ps(_mm512_set1_ps(table.of[code]), e2m1_values()));
    };
    const __m512i first = look_up(values(scale[0]), codes);
    if constexpr (kTileGroups == 1) return first;
    if (left < kTileGroups) return _mm512_maskz_mov_epi16(0x0000FFFF, first);
    return _mm512_mask_permutexvar_epi16(first, 0xFFFF0000, codes, values(scale[1]));
  }
};
struct Mxfp4Rows : SplitFp4Rows<32> {
  using SplitFp4Rows::SplitFp4Rows;
  [[gnu::always_inline]] __m512i tile(const Row& row, int64_t j) const {
    return tile_by(kE8m0Scales, row, j);
  }
};
struct Nvfp4Rows : SplitFp4Rows<16> {
  using SplitFp4Rows::SplitFp4Rows;
  [[gnu::always_inline]] __m512i tile(const Row& row, int64_t j) const {
    return tile_by(kE4m3Scales, row, j);
  }
};

// As stored.
struct Bf16Rows {
  const uint8_t* data;
  size_t row_bytes;
  int64_t cols;

  explicit Bf16Rows(const StoredRows& w) : data(w.data), row_bytes(w.row_bytes), cols(w.cols) {}
  [[gnu::always_inline]] const uint8_t* row(int64_t r) const {
    return data + static_cast<size_t>(r) * row_bytes;
  }
  [[gnu::always_inline]] __m512i tile(const uint8_t* row, int64_t j) const {
    const int64_t left = cols - 32 * j;
    const auto mask = static_cast<__mmask32>(left >= 32 ? ~0U : (1U << left) - 1);
    return _mm512_maskz_loadu_epi16(mask, row + 64 * j);
  }
};

}  // namespace
}  // namespace penstock
