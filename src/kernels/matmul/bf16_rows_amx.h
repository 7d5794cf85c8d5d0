// How 32 columns of a stored row come into a register as bf16: each weight widened to float32 as
// tensor/codec.h does, then rounded. Only for files named *_amx.cc.
//
// A code of four bits has 16 values in a group: those are widened and rounded, and the codes look
// theirs up.
//
// Each struct *Columns below is a format, and has for column tile j, columns 32 j to 32 j + 31
//   kFormat
//   head_at(j)      where in its block's (or scales') first field the tile's scales begin
//   piece_at(j)     which 16 bytes of its block's codes the tile's begin with
//   kPieces         how many of them it reads
//   of(head, codes, j)  the tile of one row
// Each struct *Tiles is 32 rows of a matrix in one layout, and has
//   fill(j, to)     the rows' tiles j, kTileCols apart, for j ascending; 0 beyond the matrix' last
//                   column. Of rows from `n_rows` on it writes any others that the matrix has.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "kernels/matmul/matmul_bf16_amx.h"
#include "kernels/matmul/scales_x86.h"
#include "tensor/interleave.h"

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

// The bytes of one row's scales, and its codes in pieces of 16 bytes, `stride` apart each.
struct Head {
  const uint8_t* at;
  int64_t stride;

  [[gnu::always_inline]] uint8_t byte(int64_t i) const { return at[i * stride]; }
};
struct Codes {
  const uint8_t* at;
  int64_t stride;

  [[gnu::always_inline]] const uint8_t* piece(int64_t i) const { return at + i * stride; }
};

// Blocks of 32 columns whose codes are one piece.
template <Format format>
struct OnePiece {
  static constexpr Format kFormat = format;
  static constexpr int kPieces = 1;
  static constexpr int64_t head_at(int64_t /*j*/) { return 0; }
  static constexpr int64_t piece_at(int64_t /*j*/) { return 0; }
};

struct Q4_0Columns : OnePiece<Format::kQ4_0> {
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const __m512 levels = _mm512_sub_ps(numbers_to_15(), _mm512_set1_ps(8.0F));
    return look_up(table_of(_mm512_mul_ps(Halves(head.at).first(), levels)),
                   low_then_high(codes.at));
  }
};

struct Q4_1Columns : OnePiece<Format::kQ4_1> {
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const Halves d_m(head.at);
    const __m512 scaled = _mm512_mul_ps(d_m.first(), numbers_to_15());
    return look_up(table_of(_mm512_add_ps(scaled, d_m.second())), low_then_high(codes.at));
  }
};

struct Mxfp4BlockColumns : OnePiece<Format::kMxfp4Block> {
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const __m512 scale = _mm512_set1_ps(kE8m0Scales.of[head.byte(0)]);
    return look_up(table_of(_mm512_mul_ps(scale, e2m1_values())), low_then_high(codes.at));
  }
};

struct Q8_0Columns {
  static constexpr Format kFormat = Format::kQ8_0;
  static constexpr int kPieces = 2;
  static constexpr int64_t head_at(int64_t /*j*/) { return 0; }
  static constexpr int64_t piece_at(int64_t /*j*/) { return 0; }
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const __m512 d = Halves(head.at).first();
    const auto sixteen = [&](const uint8_t* piece) __attribute__((always_inline)) {
      return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(piece))));
    };
    return to_bf16(sixteen(codes.piece(0)), sixteen(codes.piece(1)));
  }
};

struct Q4_KColumns {
  static constexpr Format kFormat = Format::kQ4_K;
  static constexpr int kPieces = 2;
  static constexpr int64_t head_at(int64_t /*j*/) { return 0; }
  static constexpr int64_t piece_at(int64_t j) { return j % 8 / 2 * 2; }
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t j) {
    const int64_t group = j % 8;
    alignas(16) uint8_t scales[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(scales), k_scale_codes(head.at));
    const float scale = half_at(head.at) * static_cast<float>(scales[group]);
    const float min = half_at(head.at + 2) * static_cast<float>(scales[8 + group]);
    const __m512 values =
        _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale), numbers_to_15()), _mm512_set1_ps(min));
    const __m512i bytes = _mm512_cvtepu8_epi16(_mm256_inserti128_si256(
        _mm256_castsi128_si256(load_16(codes.piece(0))), load_16(codes.piece(1)), 1));
    const __m512i nibbles = _mm512_srl_epi16(bytes, _mm_cvtsi32_si128(group % 2 == 0 ? 0 : 4));
    return look_up(table_of(values), _mm512_and_si512(nibbles, _mm512_set1_epi16(0x0F)));
  }
};

// GGUF's NVFP4: 4 scales, then 8 bytes for each of 4 groups of 16, its first half in the low
// nibbles.
struct Nvfp4BlockColumns {
  static constexpr Format kFormat = Format::kNvfp4Block;
  static constexpr int kPieces = 1;
  static constexpr int64_t head_at(int64_t j) { return j % 2 * 2; }
  static constexpr int64_t piece_at(int64_t j) { return j % 2; }
  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const auto group = [&](int64_t g) __attribute__((always_inline)) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes.at + 8 * g));
      const __m128i nibbles =
          _mm_and_si128(_mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4)), _mm_set1_epi8(0x0F));
      const __m512 scale = _mm512_set1_ps(kUe4m3Scales.of[head.byte(g)]);
      return _mm512_castsi512_si256(look_up(table_of(_mm512_mul_ps(scale, e2m1_values())),
                                            _mm512_castsi256_si512(_mm256_cvtepu8_epi16(nibbles))));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(group(0)), group(1), 1);
  }
};

// Codes and scales in separate runs; even columns in the low nibbles.
template <Format format>
struct SplitFp4Columns : OnePiece<format> {
  static constexpr int kGroups = interleaved_scales(format).bytes;

  [[gnu::always_inline]] static __m512i of(Head head, Codes codes, int64_t /*j*/) {
    const __m512i numbers = code_numbers(load_16(codes.at));
    const __m512i first = look_up(values(head.byte(0)), numbers);
    if constexpr (kGroups == 1) return first;
    return _mm512_mask_permutexvar_epi16(first, 0xFFFF0000, numbers, values(head.byte(1)));
  }
  // Where the row ends after 16 columns.
  [[gnu::always_inline]] static __m512i of_half(Head head, Codes codes) {
    const __m512i numbers = code_numbers(_mm_maskz_loadu_epi8(0x00FF, codes.at));
    return _mm512_maskz_mov_epi16(0x0000FFFF, look_up(values(head.byte(0)), numbers));
  }

 private:
  // Each byte twice, the second time for its high nibble.
  [[gnu::always_inline]] static __m512i code_numbers(__m128i bytes) {
    const __m256i words = _mm256_cvtepu8_epi16(bytes);
    return _mm512_cvtepu8_epi16(_mm256_and_si256(
        _mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(0x0F)));
  }
  [[gnu::always_inline]] static __m512i values(uint8_t scale) {
    const ScaleTable& table = format == Format::kMxfp4 ? kE8m0Scales : kE4m3Scales;
    return table_of(_mm512_mul_ps(_mm512_set1_ps(table.of[scale]), e2m1_values()));
  }
};

// Where rows begin that are row_bytes apart, from `row` on; those from n_rows on as the last.
class RowPlaces {
 public:
  RowPlaces(const uint8_t* data, size_t row_bytes, int64_t row, int64_t n_rows) {
    for (int64_t r = 0; r < kAmxRows; ++r) {
      rows_[r] = data + static_cast<size_t>(row + std::min(r, n_rows - 1)) * row_bytes;
    }
  }
  [[gnu::always_inline]] const uint8_t* of(int64_t r) const { return rows_[r]; }

 private:
  const uint8_t* rows_[kAmxRows];
};

// tile(r) of every row.
template <class Tile>
[[gnu::always_inline]] inline void store_tiles(uint16_t* to, Tile tile) {
#pragma GCC unroll 4
  for (int64_t r = 0; r < kAmxRows; ++r) _mm512_store_si512(to + r * kTileCols, tile(r));
}

// Layout::kRows.
template <class Columns>
class RowTiles {
 public:
  RowTiles(const StoredRows& w, int64_t row, int64_t n_rows)
      : rows_(w.data, w.row_bytes, row, n_rows) {}
  [[gnu::always_inline]] void fill(int64_t j, uint16_t* to) const {
    store_tiles(to, [&](int64_t r) __attribute__((always_inline)) {
      const uint8_t* const block = rows_.of(r) + j * 32 / kBlock.cols * kBlock.bytes;
      return Columns::of({block + kBlock.fields[0].at + Columns::head_at(j), 1},
                         {block + kBlock.fields[1].at + 16 * Columns::piece_at(j), 16}, j);
    });
  }

 private:
  static constexpr InterleavedBlock kBlock = interleaved_block(Columns::kFormat);
  const RowPlaces rows_;
};

template <Format format>
class RowTiles<SplitFp4Columns<format>> {
 public:
  RowTiles(const StoredRows& w, int64_t row, int64_t n_rows)
      : n_groups_(w.cols * Columns::kGroups / 32),
        codes_(w.data, w.row_bytes, row, n_rows),
        scales_(w.scales, static_cast<size_t>(n_groups_), row, n_rows) {}
  [[gnu::always_inline]] void fill(int64_t j, uint16_t* to) const {
    const bool half = n_groups_ - j * Columns::kGroups < Columns::kGroups;
    store_tiles(to, [&](int64_t r) __attribute__((always_inline)) {
      const Head head = {scales_.of(r) + j * Columns::kGroups, 1};
      const Codes codes = {codes_.of(r) + 16 * j, 16};
      return half ? Columns::of_half(head, codes) : Columns::of(head, codes, j);
    });
  }

 private:
  using Columns = SplitFp4Columns<format>;
  const int64_t n_groups_;
  const RowPlaces codes_, scales_;
};

// As stored.
class Bf16RowTiles {
 public:
  Bf16RowTiles(const StoredRows& w, int64_t row, int64_t n_rows)
      : cols_(w.cols), rows_(w.data, w.row_bytes, row, n_rows) {}
  [[gnu::always_inline]] void fill(int64_t j, uint16_t* to) const {
    const int64_t left = cols_ - 32 * j;
    const auto mask = static_cast<__mmask32>(left >= 32 ? ~0U : (1U << left) - 1);
    store_tiles(to, [&](int64_t r) __attribute__((always_inline)) {
      return _mm512_maskz_loadu_epi16(mask, rows_.of(r) + 64 * j);
    });
  }

 private:
  const int64_t cols_;
  const RowPlaces rows_;
};

// Four words of 16 interleaved rows, row by row: `to` has them in the order of row_place.
[[gnu::always_inline]] inline void part_rows(const uint8_t* words, uint8_t* to) {
  __m512i w[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) w[i] = _mm512_loadu_si512(words + int64_t{64} * i);
  const __m512i low_01 = _mm512_unpacklo_epi32(w[0], w[1]);
  const __m512i high_01 = _mm512_unpackhi_epi32(w[0], w[1]);
  const __m512i low_23 = _mm512_unpacklo_epi32(w[2], w[3]);
  const __m512i high_23 = _mm512_unpackhi_epi32(w[2], w[3]);
  _mm512_store_si512(to, _mm512_unpacklo_epi64(low_01, low_23));
  _mm512_store_si512(to + 64, _mm512_unpackhi_epi64(low_01, low_23));
  _mm512_store_si512(to + 128, _mm512_unpacklo_epi64(high_01, high_23));
  _mm512_store_si512(to + 192, _mm512_unpackhi_epi64(high_01, high_23));
}
constexpr int64_t kPartBytes = 256;
constexpr int64_t row_place(int64_t r) { return r % 4 * 64 + r / 4 * 16; }

// Layout::kInterleaved. A tile's codes are parted into rows first; so are heads of several words.
template <class Columns>
class InterleavedTiles {
 public:
  InterleavedTiles(const StoredRows& w, int64_t row, int64_t n_rows) {
    const auto n_blocks = static_cast<size_t>(w.cols / kBlock.cols);
    for (int64_t p = 0; p < kPanels; ++p) {
      // Where there is no second panel the first is read again.
      const int64_t first = row + (p * kInterleavedRows < n_rows ? p * kInterleavedRows : 0);
      const uint8_t* const panel = w.data + static_cast<size_t>(first) * w.row_bytes;
      if constexpr (kSplit) {
        heads_[p] = w.scales + static_cast<size_t>(first) * n_blocks * kHeads.bytes;
        codes_[p] = panel;
      } else {
        heads_[p] = panel;
        codes_[p] = panel + kInterleavedRows * n_blocks * kBlock.bytes_before(1);
      }
    }
  }

  [[gnu::always_inline]] void fill(int64_t j, uint16_t* to) {
#pragma GCC unroll 2
    for (int64_t p = 0; p < kPanels; ++p) {
      part(p, j);
      const int64_t block = j / kBlockTiles;
      const uint8_t* const heads =
          kPartsHeads ? parted_heads_[p]
                      : heads_[p] + kInterleavedRows * block * kHeads.bytes + Columns::head_at(j);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kInterleavedRows; ++r) {
        const Codes codes = {parted_[p][0] + row_place(r), kPartBytes};
        const Head head = kPartsHeads
                              ? Head{heads + row_place(r), 1}
                              : Head{heads + r * kHeads.unit, kSplit ? kInterleavedRows : 1};
        _mm512_store_si512(to + (p * kInterleavedRows + r) * kTileCols,
                           Columns::of(head, codes, j));
      }
    }
  }

 private:
  static constexpr Format kFormat = Columns::kFormat;
  static constexpr InterleavedBlock kBlock = interleaved_block(kFormat);
  static constexpr bool kSplit = kBlock.n_fields == 1;
  static constexpr InterleavedField kCodes = kBlock.fields[kBlock.n_fields - 1];
  static constexpr InterleavedField kHeads =
      kSplit ? interleaved_scales(kFormat).fields[0] : kBlock.fields[0];
  static constexpr bool kPartsHeads = kHeads.bytes > 4;
  static_assert(!kPartsHeads || kHeads.bytes == 16);
  static constexpr int64_t kPanels = kAmxRows / kInterleavedRows;
  static constexpr int64_t kBlockTiles = kBlock.cols / 32;
  // Tiles whose codes are in the same pieces.
  static constexpr int64_t kTilesOfPieces = kBlockTiles * Columns::kPieces * 16 / kCodes.bytes;

  [[gnu::always_inline]] void part(int64_t p, int64_t j) {
    const int64_t block = j / kBlockTiles;
    if (j % kTilesOfPieces == 0) {
      const int64_t piece = block * (kCodes.bytes / 16) + Columns::piece_at(j);
#pragma GCC unroll 2
      for (int64_t i = 0; i < Columns::kPieces; ++i) {
        part_rows(codes_[p] + (piece + i) * kPartBytes, parted_[p][i]);
      }
    }
    if constexpr (kPartsHeads) {
      if (j % kBlockTiles == 0) part_rows(heads_[p] + block * kPartBytes, parted_heads_[p]);
    }
  }

  const uint8_t* heads_[kPanels];
  const uint8_t* codes_[kPanels];
  alignas(64) uint8_t parted_[kPanels][Columns::kPieces][kPartBytes];
  alignas(64) uint8_t parted_heads_[kPanels][kPartsHeads ? kPartBytes : 64];
};

}  // namespace
}  // namespace penstock
