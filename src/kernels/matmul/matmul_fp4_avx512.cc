// AVX-512 unpackers of E2M1 codes with a scale per group: MXFP4 and NVFP4, split and in ggml
// blocks.
#include "kernels/matmul/lanes_avx512.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

// The 16 weights that E2M1 codes stand for under one scale; a permute by the codes reads it.
[[gnu::always_inline]] inline __m512 weights_of_codes(float scale) {
  const __m512 codes = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F,  //
                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
  return _mm512_mul_ps(codes, _mm512_set1_ps(scale));
}

// The weights of eight code bytes, even columns in the low nibbles. A permute looks at the low four
// bits of each lane only, so what a shift leaves above them does no harm.
[[gnu::always_inline]] inline Lanes look_up_pairs(const uint8_t* codes, __m512 weights) {
  constexpr __mmask16 kUpperLanes = 0xFF00;
  const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28,  //
                                           0, 4, 8, 12, 16, 20, 24, 28);
  const __m512i lower = _mm512_set1_epi32(static_cast<int>(word_at(codes)));
  const __m512i words = _mm512_mask_broadcastd_epi32(
      lower, kUpperLanes, _mm_cvtsi32_si128(static_cast<int>(word_at(codes + 4))));
  return _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts), weights);
}

// The weights of eight code bytes, the first eight columns in the low nibbles.
[[gnu::always_inline]] inline Lanes look_up_halves(const uint8_t* codes, __m512 weights) {
  const __m512i shifts = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
  double twice;
  std::memcpy(&twice, codes, sizeof twice);
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_castpd_si128(_mm_set1_pd(twice)));
  return _mm512_permutexvar_ps(_mm512_srlv_epi32(bytes, shifts), weights);
}

struct Mxfp4 {
  static constexpr int kCols = 32;
  static constexpr int kBytes = 16;
  static constexpr bool kRagged = false;
  const uint8_t* codes;
  const uint8_t* scale;

  Mxfp4(const StoredRows& w, int64_t row, int64_t begin)
      : codes(w.data + (row * w.cols + begin) / 2), scale(w.scales + (row * w.cols + begin) / 32) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const __m512 weights = weights_of_codes(kE8m0Scales.of[*scale]);
    emit(0, look_up_pairs(codes, weights));
    emit(1, look_up_pairs(codes + 8, weights));
    codes += kBytes;
    scale += 1;
  }
};

struct Nvfp4 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 8;
  static constexpr bool kRagged = false;
  const uint8_t* codes;
  const uint8_t* scale;

  Nvfp4(const StoredRows& w, int64_t row, int64_t begin)
      : codes(w.data + (row * w.cols + begin) / 2), scale(w.scales + (row * w.cols + begin) / 16) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, look_up_pairs(codes, weights_of_codes(kE4m3Scales.of[*scale])));
    codes += kBytes;
    scale += 1;
  }
};

struct Mxfp4Block {
  static constexpr int kCols = 32;
  static constexpr bool kRagged = false;
  static constexpr int kBytes = 17;
  const uint8_t* block;

  Mxfp4Block(const StoredRows& w, int64_t row, int64_t begin)
      : block(w.data + static_cast<size_t>(row) * w.row_bytes + begin / kCols * kBytes) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const __m512 weights = weights_of_codes(kE8m0Scales.of[block[0]]);
    const __m512i bytes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 1)));
    emit(0, _mm512_permutexvar_ps(bytes, weights));
    emit(1, _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), weights));
    block += kBytes;
  }
};

struct Nvfp4Block {
  static constexpr int kCols = 64;
  static constexpr bool kRagged = false;
  static constexpr int kBytes = 36;
  const uint8_t* block;

  Nvfp4Block(const StoredRows& w, int64_t row, int64_t begin)
      : block(w.data + static_cast<size_t>(row) * w.row_bytes + begin / kCols * kBytes) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      emit(i,
           look_up_halves(block + 4 + int64_t{8} * i, weights_of_codes(kUe4m3Scales.of[block[i]])));
    }
    block += kBytes;
  }
};

}  // namespace

void add_fp4_kernels_avx512(ExactKernels& kernels) {
  add_kernels<Mxfp4>(kernels, Format::kMxfp4);
  add_kernels<Nvfp4>(kernels, Format::kNvfp4);
  add_kernels<Mxfp4Block>(kernels, Format::kMxfp4Block);
  add_kernels<Nvfp4Block>(kernels, Format::kNvfp4Block);
}

}  // namespace penstock
