// AVX2 unpackers of E2M1 codes with a scale per group: MXFP4 and NVFP4, split and in ggml blocks.
#include "kernels/matmul/lanes_avx2.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

// The eight magnitudes under one scale; a permute by the low three bits of a code reads it.
[[gnu::always_inline]] inline __m256 magnitudes_of_codes(float scale) {
  const __m256 codes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
  return _mm256_mul_ps(codes, _mm256_set1_ps(scale));
}

// The weights of eight codes, each in the low four bits of its lane; what lies above does no harm.
[[gnu::always_inline]] inline __m256 look_up(__m256i codes, __m256 magnitudes) {
  const __m256 sign =
      _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)), _mm256_set1_ps(-0.0F));
  return _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, codes), sign);
}

// The weights of eight code bytes, even columns in the low nibbles.
[[gnu::always_inline]] inline Lanes look_up_pairs(const uint8_t* codes, __m256 magnitudes) {
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const auto eight = [&](const uint8_t* p) __attribute__((always_inline)) {
    const __m256i word = _mm256_set1_epi32(static_cast<int>(word_at(p)));
    return look_up(_mm256_srlv_epi32(word, shifts), magnitudes);
  };
  return {eight(codes), eight(codes + 4)};
}

[[gnu::always_inline]] inline __m256i widen_8_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
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
    const __m256 magnitudes = magnitudes_of_codes(kE8m0Scales.of[*scale]);
    emit(0, look_up_pairs(codes, magnitudes));
    emit(1, look_up_pairs(codes + 8, magnitudes));
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
    emit(0, look_up_pairs(codes, magnitudes_of_codes(kE4m3Scales.of[*scale])));
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
    const __m256 magnitudes = magnitudes_of_codes(kE8m0Scales.of[block[0]]);
    const __m256i first = widen_8_bytes(block + 1);
    const __m256i second = widen_8_bytes(block + 9);
    emit(0, Lanes{look_up(first, magnitudes), look_up(second, magnitudes)});
    emit(1, Lanes{look_up(_mm256_srli_epi32(first, 4), magnitudes),
                  look_up(_mm256_srli_epi32(second, 4), magnitudes)});
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
      const __m256 magnitudes = magnitudes_of_codes(kUe4m3Scales.of[block[i]]);
      const __m256i bytes = widen_8_bytes(block + 4 + int64_t{8} * i);
      emit(i, Lanes{look_up(bytes, magnitudes), look_up(_mm256_srli_epi32(bytes, 4), magnitudes)});
    }
    block += kBytes;
  }
};

}  // namespace

void add_fp4_kernels_avx2(ExactKernels& kernels) {
  add_kernels<Mxfp4>(kernels, Format::kMxfp4);
  add_kernels<Nvfp4>(kernels, Format::kNvfp4);
  add_kernels<Mxfp4Block>(kernels, Format::kMxfp4Block);
  add_kernels<Nvfp4Block>(kernels, Format::kNvfp4Block);
}

}  // namespace penstock
