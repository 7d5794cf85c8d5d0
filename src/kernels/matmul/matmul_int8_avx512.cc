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

[[gnu::always_inline]] inline __m256i load_32(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// The low four bits of each byte, after a shift to the right by 0 or 4 for each of 8 runs of 8.
[[gnu::always_inline]] inline __m512i nibbles(__m512i bytes, __m512i shifts) {
  return _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts), _mm512_set1_epi8(0x0F));
}
constexpr int64_t kShift2 = 0x0002000200020002;  // of four 16-bit numbers
constexpr int64_t kShift4 = 0x0004000400040004;

// 12 more than twice the value of each e2m1 code.
[[gnu::always_inline]] inline __m512i e2m1_codes(__m512i nibbles) {
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}
[[gnu::always_inline]] inline Groups e2m1_groups(__m512 scales) {
  return {_mm512_mul_ps(scales, _mm512_set1_ps(0.5F)),
          _mm512_mul_ps(scales, _mm512_set1_ps(-6.0F))};
}

[[gnu::always_inline]] inline __m512 look_up(const ScaleTable& table, __m512i codes,
                                             __mmask16 mask) {
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, codes, table.of, sizeof(float));
}

// A row of blocks of `bytes` bytes, whose scales serve `group` columns each.
template <int group, int bytes>
struct Blocks {
  static constexpr int kGroup = group;
  const uint8_t* blocks;
  int64_t n_groups;

  Blocks(const StoredRows& w, int64_t row)
      : blocks(w.data + static_cast<size_t>(row) * w.row_bytes), n_groups(w.cols / group) {}
  [[gnu::always_inline]] const uint8_t* block(int64_t i) const { return blocks + i * bytes; }
};

// Blocks of one group, in which the first 16 columns are the low nibbles of 16 bytes.
template <int bytes>
struct NibbleBlocks : Blocks<32, bytes> {
  using Blocks<32, bytes>::Blocks;

  // The words at the start of 16 blocks.
  [[gnu::always_inline]] __m512i words(int64_t first) const {
    return first_words<bytes>(this->block(first), groups_left(this->n_groups, first));
  }
  // Two blocks from `column`, a multiple of 64; the row may end after the first.
  template <int codes_at>
  [[gnu::always_inline]] __m512i nibbles_of_two(int64_t column) const {
    const auto twice = [&](int64_t i) __attribute__((always_inline)) {
      const auto* const codes = reinterpret_cast<const __m128i*>(this->block(i) + codes_at);
      return _mm256_broadcastsi128_si256(_mm_loadu_si128(codes));
    };
    const int64_t i = column / 32;
    const __m256i second = i + 1 < this->n_groups ? twice(i + 1) : _mm256_setzero_si256();
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(twice(i)), second, 1);
    return nibbles(both, _mm512_setr_epi64(0, 0, kShift4, kShift4, 0, 0, kShift4, kShift4));
  }
};

struct Q4_0 : NibbleBlocks<18> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512 d = low_halves(words(first));
    return {d, _mm512_mul_ps(d, _mm512_set1_ps(-8.0F))};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const { return nibbles_of_two<2>(column); }
};

struct Q4_1 : NibbleBlocks<20> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512i d_m = words(first);
    return {low_halves(d_m), high_halves(d_m)};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const { return nibbles_of_two<4>(column); }
};

struct Mxfp4Block : NibbleBlocks<17> {
  using NibbleBlocks::NibbleBlocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512i exponents = _mm512_and_si512(words(first), _mm512_set1_epi32(0xFF));
    return e2m1_groups(look_up(kE8m0Scales, exponents, groups_left(n_groups, first)));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    return e2m1_codes(nibbles_of_two<1>(column));
  }
};

struct Q8_0 : Blocks<32, 34> {
  using Blocks::Blocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512 d = low_halves(first_words<34>(block(first), groups_left(n_groups, first)));
    return {d, _mm512_mul_ps(d, _mm512_set1_ps(-128.0F))};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const int64_t i = column / kGroup;
    const __m256i second = i + 1 < n_groups ? load_32(block(i + 1) + 2) : _mm256_setzero_si256();
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(load_32(block(i) + 2)), second, 1);
    return _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
};

// Codes and scales in separate runs; even columns in the low nibbles.
template <int group>
struct SplitFp4 {
  static constexpr int kGroup = group;
  const uint8_t* data;
  const uint8_t* scales;
  int64_t n_groups;

  SplitFp4(const StoredRows& w, int64_t row)
      : data(w.data + static_cast<size_t>(row) * w.row_bytes),
        scales(w.scales + row * (w.cols / group)),
        n_groups(w.cols / group) {}
  [[gnu::always_inline]] Groups groups_by(const ScaleTable& table, int64_t first) const {
    const __mmask16 mask = groups_left(n_groups, first);
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, scales + first));
    return e2m1_groups(look_up(table, bytes, mask));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const int64_t left = (n_groups * group - column) / 2;
    const auto mask = static_cast<__mmask32>(left >= 32 ? ~0U : (1U << left) - 1);
    const __m512i wide = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, data + column / 2));
    return e2m1_codes(_mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16(wide, 4)),
                                       _mm512_set1_epi8(0x0F)));
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
struct Nvfp4Block : Blocks<16, 36> {
  using Blocks::Blocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __mmask16 mask = groups_left(n_groups, first);
    const int64_t left = n_groups - first;
    const auto blocks_left = static_cast<__mmask8>(left >= 16 ? 0xF : (1U << left / 4) - 1);
    const __m128i at = _mm_setr_epi32(0, 36, 2 * 36, 3 * 36);
    const __m128i bytes =
        _mm_mmask_i32gather_epi32(_mm_setzero_si128(), blocks_left, at, block(first / 4), 1);
    return e2m1_groups(look_up(kUe4m3Scales, _mm512_cvtepu8_epi32(bytes), mask));
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    // Each group's 8 bytes twice, the second time for their high nibbles.
    const __m512i twice =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                 _mm512_castsi256_si512(load_32(block(column / 64) + 4)));
    return e2m1_codes(
        nibbles(twice, _mm512_setr_epi64(0, kShift4, 0, kShift4, 0, kShift4, 0, kShift4)));
  }
};

struct Q4_K : Blocks<32, 144> {
  using Blocks::Blocks;

  // d sc_j in the lower half, -dmin mn_j in the upper: 8 groups of one block.
  [[gnu::always_inline]] static __m512 block_groups(const uint8_t* block) {
    const __m512 factors =
        _mm512_insertf32x8(_mm512_set1_ps(half_at(block)), _mm256_set1_ps(-half_at(block + 2)), 1);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(k_scale_codes(block))), factors);
  }
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const __m512 one = block_groups(block(first / 8));
    const __m512 two =
        first + 8 < n_groups ? block_groups(block(first / 8 + 1)) : _mm512_setzero_ps();
    constexpr int kLowHalves = 0x44;
    constexpr int kHighHalves = 0xEE;
    return {_mm512_shuffle_f32x4(one, two, kLowHalves),
            _mm512_shuffle_f32x4(one, two, kHighHalves)};
  }
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const uint8_t* const codes_of_64 = block(column / 256) + 16 + column % 256 / 2;
    return nibbles(_mm512_broadcast_i64x4(load_32(codes_of_64)),
                   _mm512_setr_epi64(0, 0, 0, 0, kShift4, kShift4, kShift4, kShift4));
  }
};

struct Q6_K : Blocks<16, 210> {
  using Blocks::Blocks;
  [[gnu::always_inline]] Groups groups(int64_t first) const {
    const uint8_t* const b = block(first / 16);
    const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 192));
    const __m512 factors = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)),
                                         _mm512_set1_ps(half_at(b + 208)));
    return {factors, _mm512_mul_ps(factors, _mm512_set1_ps(-32.0F))};
  }
  // Of each half of the block: 64 bytes of low nibbles, for the first 64 columns their lower and
  // for the others their upper four bits, and 32 bytes of two upper bits for each 32 columns.
  [[gnu::always_inline]] __m512i codes(int64_t column) const {
    const uint8_t* const b = block(column / 256);
    const int64_t half = column % 256 / 128;
    const auto shift = _mm_cvtsi32_si128(column % 128 == 0 ? 0 : 4);
    const __m512i low = _mm512_srl_epi16(_mm512_loadu_si512(b + 64 * half), shift);
    const __m512i high =
        _mm512_srl_epi16(_mm512_broadcast_i64x4(load_32(b + 128 + 32 * half)), shift);
    const __m512i two_bits = _mm512_and_si512(
        _mm512_srlv_epi16(high, _mm512_setr_epi64(0, 0, 0, 0, kShift2, kShift2, kShift2, kShift2)),
        _mm512_set1_epi8(0x03));
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(0x0F)),
                           _mm512_slli_epi16(two_bits, 4));
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
