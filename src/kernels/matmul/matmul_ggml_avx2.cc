// AVX2 unpackers of ggml's integer blocks (docs/formats.md): Q4_0, Q4_1, Q8_0, Q4_K, Q6_K.
#include "kernels/matmul/lanes_avx2.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

[[gnu::always_inline]] inline __m128i load_8_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}

// 16 code bytes, one to a 32-bit lane; each holds a code of two groups of 16 columns.
struct CodePairs {
  __m256i first;
  __m256i second;

  [[gnu::always_inline]] explicit CodePairs(const uint8_t* p)
      : first(_mm256_cvtepu8_epi32(load_8_bytes(p))),
        second(_mm256_cvtepu8_epi32(load_8_bytes(p + 8))) {}

  [[gnu::always_inline]] Lanes low() const {
    const __m256i mask = _mm256_set1_epi32(15);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(first, mask)),
            _mm256_cvtepi32_ps(_mm256_and_si256(second, mask))};
  }
  [[gnu::always_inline]] Lanes high() const {
    return {_mm256_cvtepi32_ps(_mm256_srli_epi32(first, 4)),
            _mm256_cvtepi32_ps(_mm256_srli_epi32(second, 4))};
  }
};

[[gnu::always_inline]] inline Lanes scaled(const Lanes& q, __m256 d) {
  return {_mm256_mul_ps(q.low, d), _mm256_mul_ps(q.high, d)};
}

// 16 signed bytes times d.
[[gnu::always_inline]] inline Lanes scaled_bytes(const uint8_t* p, __m256 d) {
  return {_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8_bytes(p))), d),
          _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8_bytes(p + 8))), d)};
}

template <int cols, int bytes>
struct BlockUnpacker {
  static constexpr int kCols = cols;
  static constexpr int kBytes = bytes;
  static constexpr bool kRagged = false;
  const uint8_t* block;

  BlockUnpacker(const StoredRows& w, int64_t row, int64_t begin)
      : block(w.data + static_cast<size_t>(row) * w.row_bytes + begin / cols * bytes) {}
};

struct Q4_0 : BlockUnpacker<32, 18> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = two_halves(block);
    const __m256 d = _mm256_broadcast_ss(&scales.of[0]);
    const auto weights = [&](const Lanes& q) __attribute__((always_inline)) {
      const __m256 eight = _mm256_set1_ps(8.0F);
      return scaled({_mm256_sub_ps(q.low, eight), _mm256_sub_ps(q.high, eight)}, d);
    };
    const CodePairs codes(block + 2);
    emit(0, weights(codes.low()));
    emit(1, weights(codes.high()));
    block += kBytes;
  }
};

struct Q4_1 : BlockUnpacker<32, 20> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = two_halves(block);
    const __m256 d = _mm256_broadcast_ss(&scales.of[0]);
    const __m256 m = _mm256_broadcast_ss(&scales.of[1]);
    const auto weights = [&](const Lanes& q) __attribute__((always_inline)) {
      return Lanes{_mm256_fmadd_ps(q.low, d, m), _mm256_fmadd_ps(q.high, d, m)};
    };
    const CodePairs codes(block + 4);
    emit(0, weights(codes.low()));
    emit(1, weights(codes.high()));
    block += kBytes;
  }
};

struct Q8_0 : BlockUnpacker<32, 34> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = two_halves(block);
    const __m256 d = _mm256_broadcast_ss(&scales.of[0]);
    emit(0, scaled_bytes(block + 2, d));
    emit(1, scaled_bytes(block + 18, d));
    block += kBytes;
  }
};

// The scales d sc_j (of[j]) and minima m mn_j (of[8 + j]) of a Q4_K block.
[[gnu::always_inline]] inline Broadcastable<16> k_scales(const uint8_t* block) {
  const __m128i codes = k_scale_codes(block);
  const auto times = [](__m128i bytes, float factor) __attribute__((always_inline)) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_set1_ps(factor));
  };
  Broadcastable<16> scales;
  _mm256_store_ps(scales.of, times(codes, half_at(block)));
  _mm256_store_ps(scales.of + 8, times(_mm_srli_si128(codes, 8), half_at(block + 2)));
  scales.settle();
  return scales;
}

struct Q4_K : BlockUnpacker<256, 144> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = k_scales(block);
    const auto weights = [&](const Lanes& q, int j) __attribute__((always_inline)) {
      const __m256 d = _mm256_broadcast_ss(&scales.of[j]);
      const __m256 m = _mm256_broadcast_ss(&scales.of[8 + j]);
      return Lanes{_mm256_fmsub_ps(q.low, d, m), _mm256_fmsub_ps(q.high, d, m)};
    };
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) {
      const CodePairs first(block + 16 + 16 * j);
      const CodePairs second(block + 32 + 16 * j);
      emit(2 * j, weights(first.low(), j));
      emit(2 * j + 1, weights(second.low(), j));
      emit(2 * j + 2, weights(first.high(), j + 1));
      emit(2 * j + 3, weights(second.high(), j + 1));
    }
    block += kBytes;
  }
};

struct Q6_K : BlockUnpacker<256, 210> {
  using BlockUnpacker::BlockUnpacker;

  // d scale_i for the 16 groups of 16.
  [[gnu::always_inline]] Broadcastable<16> group_scales() const {
    const Lanes d_scales = scaled_bytes(block + 192, _mm256_set1_ps(half_at(block + 208)));
    Broadcastable<16> scales;
    store_lanes(scales.of, d_scales);
    scales.settle();
    return scales;
  }

  // q - 32 of columns [128 n + 32 s, + 32), as signed bytes.
  [[gnu::always_inline]] __m256i codes(int n, int s) const {
    const auto* low_at = reinterpret_cast<const __m256i*>(block + 64 * n + 32 * (s % 2));
    const auto* high_at = reinterpret_cast<const __m256i*>(block + 128 + 32 * n);
    const __m256i low = _mm256_srli_epi16(_mm256_loadu_si256(low_at), s / 2 * 4);
    const __m256i high = _mm256_loadu_si256(high_at);
    // Bits 2s and 2s + 1 of `high` go to bits 4 and 5.
    const __m256i moved =
        s < 2 ? _mm256_slli_epi16(high, 4 - 2 * s) : _mm256_srli_epi16(high, 2 * s - 4);
    const __m256i q = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(0x0F)),
                                      _mm256_and_si256(moved, _mm256_set1_epi8(0x30)));
    return _mm256_sub_epi8(q, _mm256_set1_epi8(32));
  }

  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = group_scales();
    const auto emit_16 = [&](int i, __m128i bytes) __attribute__((always_inline)) {
      const Lanes q = {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
      emit(i, scaled(q, _mm256_broadcast_ss(&scales.of[i])));
    };
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i q = codes(i / 4, i % 4);
      emit_16(2 * i, _mm256_castsi256_si128(q));
      emit_16(2 * i + 1, _mm256_extracti128_si256(q, 1));
    }
    block += kBytes;
  }
};

}  // namespace

void add_ggml_kernels_avx2(ExactKernels& kernels) {
  add_kernels<Q4_0>(kernels, Format::kQ4_0);
  add_kernels<Q4_1>(kernels, Format::kQ4_1);
  add_kernels<Q8_0>(kernels, Format::kQ8_0);
  add_kernels<Q4_K>(kernels, Format::kQ4_K);
  add_kernels<Q6_K>(kernels, Format::kQ6_K);
}

}  // namespace penstock
