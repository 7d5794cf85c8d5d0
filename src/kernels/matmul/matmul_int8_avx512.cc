// The int8 product on AVX-512 VNNI. Every format here is a group's factor times an unsigned code of
// at most 8 bits, plus a group's offset: w = factor u + offset. So for a group of columns
//   sum w x = factor scale (sum u code) + offset (scale sum code)
// with the sum of products exact in int32 and the last bracket known from the activations.
#include "kernels/matmul/int8_kernels.h"
#include "kernels/matmul/lanes_avx512.h"
#include "kernels/matmul/scales_x86.h"

namespace penstock {
namespace {

// Factors and offsets of the next 16 groups of a row.
struct Groups {
  __m512 factors;
  __m512 offsets;
};

// How many of 16 groups from `first` on a row has, as a mask.
[[gnu::always_inline]] inline __mmask16 groups_left(int64_t n_groups, int64_t first) {
  const int64_t n = n_groups - first;
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1U << n) - 1);
}

[[gnu::always_inline]] inline __m512 low_halves(__m512i words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}
[[gnu::always_inline]] inline __m512 high_halves(__m512i words) {
  return low_halves(_mm512_srli_epi32(words, 16));
}

// The 4 bytes at the start of each of 16 blocks; 0 where the mask has none.
template <int kBytes>
[[gnu::always_inline]] inline __m512i first_words(const uint8_t* blocks, __mmask16 mask) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(count, _mm512_set1_epi32(kBytes));
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, at, blocks, 1);
}

// 16 bytes a, then 16 bytes b where there is a second block: low nibbles of a, high nibbles of a,
// and likewise of b.
[[gnu::always_inline]] inline __m512i nibbles_of_two(const uint8_t* a, const uint8_t* b,
                                                     bool has_b) {
  const auto load = [](const uint8_t* p) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  const __m128i second = has_b ? load(b) : _mm_setzero_si128();
  const __m512i both =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastsi128_si256(load(a))),
                         _mm256_broadcastsi128_si256(second), 1);
  constexpr int64_t kFour = 0x0004000400040004;
  const __m512i shifts = _mm512_setr_epi64(0, 0, kFour, kFour, 0, 0, kFour, kFour);
  return _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(0x0F));
}

// 2 and 12 more than twice the value of each e2m1 code.
[[gnu::always_inline]] inline __m512i e2m1_codes(__m512i nibbles) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}
constexpr float kE2m1Factor = 0.5F;
constexpr float kE2m1Offset = -6.0F;

// Even columns in the low nibbles: 64 codes of 32 bytes.
[[gnu::always_inline]] inline __m512i interleaved_nibbles(__m256i bytes) {
  const __m512i wide = _mm512_cvtepu8_epi16(bytes);
  return _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16(wide, 4)),
                          _mm512_set1_epi8(0x0F));
}

[[gnu::always_inline]] inline __m256i load_32(const uint8_t* p, bool whole) {
  const auto mask = static_cast<__mmask32>(whole ? ~0U : 0xFFFF);
  return _mm256_maskz_loadu_epi8(mask, p);
}

template <int kBytes>
struct NibbleBlocks {
  static constexpr int kGroup = 32;
  const uint8_t* blocks;
  int64_t n_groups;

  NibbleBlocks(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / kGroup) {}
  [[gnu::always_inline]] const uint8_t* block(int64_t i) const { return blocks + i * kBytes; }
  // `columns` is a multiple of 64; the row may end after half of them.
  template <int kCodesAt>
  [[gnu::always_inline]] __m512i nibbles(int64_t column) const {
    const int64_t i = column / kGroup;
    return nibbles_of_two(block(i) + kCodesAt, block(i + 1) + kCodesAt, i + 1 < n_groups);
  }
};

struct Q4_0 : NibbleBlocks<18> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512 d = low_halves(first_words<18>(block(first), groups_left(n_groups, first)));
    return {d, _mm512_mul_ps(d, _mm512_set1_ps(-8.0F))};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const { return nibbles<2>(column); }
};

struct Q4_1 : NibbleBlocks<20> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512i words = first_words<20>(block(first), groups_left(n_groups, first));
    return {low_halves(words), high_halves(words)};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const { return nibbles<4>(column); }
};

// Biased exponents as floats; 2^-127 is subnormal and 255 is NaN.
[[gnu::always_inline]] inline Groups e2m1_groups(__m512 scales) {
  return {_mm512_mul_ps(scales, _mm512_set1_ps(kE2m1Factor)),
          _mm512_mul_ps(scales, _mm512_set1_ps(kE2m1Offset))};
}
[[gnu::always_inline]] inline __m512 look_up(const ScaleTable& table, __m512i codes,
                                             __mmask16 mask) {
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, codes, table.of, sizeof(float));
}

struct Mxfp4Block : NibbleBlocks<17> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __mmask16 mask = groups_left(n_groups, first);
    const __m512i exponents =
        _mm512_and_si512(first_words<17>(block(first), mask), _mm512_set1_epi32(0xFF));
    return e2m1_groups(look_up(kE8m0Scales, exponents, mask));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    return e2m1_codes(nibbles<1>(column));
  }
};

struct Q8_0 {
  static constexpr int kGroup = 32;
  static constexpr int kBytes = 34;
  const uint8_t* blocks;
  int64_t n_groups;

  Q8_0(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / kGroup) {}
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512 d =
        low_halves(first_words<kBytes>(blocks + first * kBytes, groups_left(n_groups, first)));
    return {d, _mm512_mul_ps(d, _mm512_set1_ps(-128.0F))};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const int64_t i = column / kGroup;
    const uint8_t* const a = blocks + i * kBytes + 2;
    const __m256i second = i + 1 < n_groups ? load_32(a + kBytes, true) : _mm256_setzero_si256();
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(load_32(a, true)), second, 1);
    return _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
};

// Codes and scales in separate runs.
template <int group>
struct SplitFp4 {
  static constexpr int kGroup = group;
  const uint8_t* data;
  const uint8_t* scales;
  int64_t cols;
  int64_t n_groups;

  SplitFp4(const StoredRows& w, int64_t row)
      : data(w.data + static_cast<size_t>(row) * w.row_bytes),
        scales(w.scales + row * (w.cols / kGroup)),
        cols(w.cols),
        n_groups(w.cols / kGroup) {}
  [[gnu::always_inline]] Groups groups_by(const ScaleTable& table, int64_t first) const {
    const __mmask16 mask = groups_left(n_groups, first);
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, scales + first));
    return e2m1_groups(look_up(table, bytes, mask));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const int64_t left = (cols - column) / 2;
    const auto mask = static_cast<__mmask32>(left >= 32 ? ~0U : (1U << left) - 1);
    return e2m1_codes(interleaved_nibbles(_mm256_maskz_loadu_epi8(mask, data + column / 2)));
  }
};
struct Mxfp4 : SplitFp4<32> {
  using SplitFp4::SplitFp4;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    return groups_by(kE8m0Scales, first);
  }
};
struct Nvfp4 : SplitFp4<16> {
  using SplitFp4::SplitFp4;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    return groups_by(kE4m3Scales, first);
  }
};

// GGUF's: 4 scales, then the codes of 4 groups of 16, each with its first half in the low nibbles.
struct Nvfp4Block {
  static constexpr int kGroup = 16;
  static constexpr int kBytes = 36;
  const uint8_t* blocks;
  int64_t n_groups;

  Nvfp4Block(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / kGroup) {}
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __mmask16 mask = groups_left(n_groups, first);
    const __m128i at = _mm_setr_epi32(0, kBytes, 2 * kBytes, 3 * kBytes);
    const auto blocks_left =
        static_cast<__mmask8>((1U << ((n_groups - first >= 16 ? 16 : n_groups - first) / 4)) - 1);
    const __m128i bytes = _mm_mmask_i32gather_epi32(_mm_setzero_si128(), blocks_left, at,
                                                    blocks + first / 4 * kBytes, 1);
    return e2m1_groups(look_up(kUe4m3Scales, _mm512_cvtepu8_epi32(bytes), mask));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const __m256i bytes = load_32(blocks + column / 64 * kBytes + 4, true);
    // Each group's 8 bytes twice, the second time for their high nibbles.
    const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                                   _mm512_castsi256_si512(bytes));
    constexpr int64_t kFour = 0x0004000400040004;
    const __m512i shifts = _mm512_setr_epi64(0, kFour, 0, kFour, 0, kFour, 0, kFour);
    return e2m1_codes(_mm512_and_si512(_mm512_srlv_epi16(twice, shifts), _mm512_set1_epi8(0x0F)));
  }
};

struct Q4_K {
  static constexpr int kGroup = 32;
  static constexpr int kBytes = 144;  // of 256 columns
  const uint8_t* blocks;
  int64_t n_groups;

  Q4_K(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / kGroup) {}

  // d sc_j in the lower half, -dmin mn_j in the upper: 8 groups of one block.
  [[gnu::always_inline]] static __m512 block_groups(const uint8_t* block) {
    const uint32_t a = word_at(block + 4);
    const uint32_t b = word_at(block + 8);
    const uint32_t c = word_at(block + 12);
    constexpr uint32_t kLow6 = 0x3F3F3F3F;
    constexpr uint32_t kLow4 = 0x0F0F0F0F;
    constexpr uint32_t kHigh2 = 0x30303030;
    const __m128i packed = _mm_setr_epi32(
        static_cast<int>(a & kLow6), static_cast<int>((c & kLow4) | ((a >> 2) & kHigh2)),
        static_cast<int>(b & kLow6), static_cast<int>(((c >> 4) & kLow4) | ((b >> 2) & kHigh2)));
    const __m512 factors =
        _mm512_insertf32x8(_mm512_set1_ps(half_at(block)), _mm256_set1_ps(-half_at(block + 2)), 1);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(packed)), factors);
  }
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const uint8_t* const block = blocks + first / 8 * kBytes;
    const __m512 one = block_groups(block);
    const __m512 two = first + 8 < n_groups ? block_groups(block + kBytes) : _mm512_setzero_ps();
    constexpr int kLowHalves = 0x44;
    constexpr int kHighHalves = 0xEE;
    return {_mm512_shuffle_f32x4(one, two, kLowHalves),
            _mm512_shuffle_f32x4(one, two, kHighHalves)};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const uint8_t* const block = blocks + column / 256 * kBytes;
    const __m512i twice = _mm512_broadcast_i64x4(load_32(block + 16 + column % 256 / 2, true));
    constexpr int64_t kFour = 0x0004000400040004;
    const __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, kFour, kFour, kFour, kFour);
    return _mm512_and_si512(_mm512_srlv_epi16(twice, shifts), _mm512_set1_epi8(0x0F));
  }
};

struct Q6_K {
  static constexpr int kGroup = 16;
  static constexpr int kBytes = 210;  // of 256 columns
  const uint8_t* blocks;
  int64_t n_groups;

  Q6_K(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / kGroup) {}
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const uint8_t* const block = blocks + first / 16 * kBytes;
    const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 192));
    const __m512 factors = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)),
                                         _mm512_set1_ps(half_at(block + 208)));
    return {factors, _mm512_mul_ps(factors, _mm512_set1_ps(-32.0F))};
  }
  // Of each half of the block: 64 bytes of low nibbles, for the first 64 columns their lower and
  // for the others their upper four bits, and 32 bytes of two upper bits for each 32 columns.
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const uint8_t* const block = blocks + column / 256 * kBytes;
    const int64_t half = column % 256 / 128;
    const bool second = column % 128 != 0;
    const __m512i low = _mm512_loadu_si512(block + 64 * half);
    const __m512i high = _mm512_broadcast_i64x4(load_32(block + 128 + 32 * half, true));
    const __m512i nibbles =
        _mm512_and_si512(second ? _mm512_srli_epi16(low, 4) : low, _mm512_set1_epi8(0x0F));
    constexpr int64_t kTwo = 0x0002000200020002;
    const __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, kTwo, kTwo, kTwo, kTwo);
    const __m512i pairs =
        _mm512_and_si512(_mm512_srlv_epi16(second ? _mm512_srli_epi16(high, 4) : high, shifts),
                         _mm512_set1_epi8(0x03));
    return _mm512_or_si512(nibbles, _mm512_slli_epi16(pairs, 4));
  }
};

// Which of 16 groups each lane of 64 columns from number 64 `i` on belongs to.
template <int kGroup>
[[gnu::always_inline]] inline __m512i groups_of_lanes(int i) {
  const __m512i first = kGroup == 32
                            ? _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
                            : _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_add_epi32(first, _mm512_set1_epi32(i * 64 / kGroup));
}

// The scales of x for 16 groups of weights.
template <int kGroup>
[[gnu::always_inline]] inline __m512 scales_of_groups(const Int8Row& x, int64_t first) {
  if constexpr (kGroup == 32) return _mm512_loadu_ps(x.scales + first);
  const __m256 eight = _mm256_loadu_ps(x.scales + first / 2);
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                               _mm512_castps256_ps512(eight));
}

template <class F, int T>
[[gnu::always_inline]] inline void multiply_tokens(const F& weights, const Int8Row* x, float scale,
                                                   float* y, int64_t y_stride) {
  constexpr int kGroup = F::kGroup;
  const int64_t n_groups = weights.n_groups;
  __m512 sums[T];
  __m512 offsets[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sums[t] = offsets[t] = _mm512_setzero_ps();
  for (int64_t first = 0; first < n_groups; first += 16) {
    const Groups groups = weights.groups(first);
    __m512 factors[T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      factors[t] = _mm512_mul_ps(groups.factors, scales_of_groups<kGroup>(x[t], first));
      const float* const code_sums = kGroup == 32 ? x[t].sums_32 : x[t].sums_16;
      offsets[t] = _mm512_fmadd_ps(groups.offsets, _mm512_loadu_ps(code_sums + first), offsets[t]);
    }
    const int64_t column = first * kGroup;
    const int64_t left = n_groups * kGroup - column;
    const auto multiply_64 = [&](int i) __attribute__((always_inline)) {
      const __m512i codes = weights.codes(column + 64 * i);
      const __m512i lanes = groups_of_lanes<kGroup>(i);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const __m512i products = _mm512_dpbusd_epi32(
            _mm512_setzero_si512(), codes, _mm512_loadu_si512(x[t].codes + column + 64 * i));
        sums[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products),
                                  _mm512_permutexvar_ps(lanes, factors[t]), sums[t]);
      }
    };
    constexpr int kWhole = 16 * kGroup / 64;
    if (left >= 16 * kGroup) {
#pragma GCC unroll 8
      for (int i = 0; i < kWhole; ++i) multiply_64(i);
    } else {
      for (int i = 0; 64 * i < left; ++i) multiply_64(i);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    y[t * y_stride] = scale * _mm512_reduce_add_ps(_mm512_add_ps(sums[t], offsets[t]));
  }
}

// One core's own prefetchers follow a single stream of weights too closely to fill its bandwidth.
constexpr size_t kPrefetchBytes = 4096;
[[gnu::always_inline]] inline void prefetch_row(const StoredRows& w, int64_t row) {
  const uint8_t* const ahead = w.data + static_cast<size_t>(row) * w.row_bytes + kPrefetchBytes;
  for (size_t i = 0; i < w.row_bytes; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T0);
}

// Eight tokens at a time, then four, two, one: what a token gets does not depend on the others.
template <class F>
void multiply_row(const StoredRows& w, int64_t row, const Int8Row* x, int64_t n_tokens, float scale,
                  float* y, int64_t y_stride) {
  prefetch_row(w, row);
  const F weights(w, row);
  int64_t t = 0;
  for (; t + 8 <= n_tokens; t += 8) {
    multiply_tokens<F, 8>(weights, x + t, scale, y + t * y_stride, y_stride);
  }
  if (t + 4 <= n_tokens) {
    multiply_tokens<F, 4>(weights, x + t, scale, y + t * y_stride, y_stride);
    t += 4;
  }
  if (t + 2 <= n_tokens) {
    multiply_tokens<F, 2>(weights, x + t, scale, y + t * y_stride, y_stride);
    t += 2;
  }
  if (t < n_tokens) multiply_tokens<F, 1>(weights, x + t, scale, y + t * y_stride, y_stride);
}

constexpr Int8Kernels make_kernels() {
  Int8Kernels kernels;
  const auto set = [&](Format format, MultiplyInt8Row kernel) {
    kernels.multiply_row[static_cast<size_t>(format)] = kernel;
  };
  set(Format::kQ4_0, multiply_row<Q4_0>);
  set(Format::kQ4_1, multiply_row<Q4_1>);
  set(Format::kQ8_0, multiply_row<Q8_0>);
  set(Format::kQ4_K, multiply_row<Q4_K>);
  set(Format::kQ6_K, multiply_row<Q6_K>);
  set(Format::kMxfp4Block, multiply_row<Mxfp4Block>);
  set(Format::kMxfp4, multiply_row<Mxfp4>);
  set(Format::kNvfp4Block, multiply_row<Nvfp4Block>);
  set(Format::kNvfp4, multiply_row<Nvfp4>);
  return kernels;
}
constexpr Int8Kernels kKernels = make_kernels();

}  // namespace

const Int8Kernels& int8_kernels_avx512() { return kKernels; }

}  // namespace penstock
