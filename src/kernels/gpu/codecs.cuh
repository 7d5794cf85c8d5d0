// How each stored format becomes bf16 on a GPU: what a lane loads at once, and how it unpacks that. The layouts are those of
// docs/formats.md. bf16, NVFP4, MXFP4 and FP8 with scales of a power of two are exact; where a weight needs more bits than
// bf16 has, it is rounded once, to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/gpu/gpu_matrix.h"

namespace penstock::gpu {

struct Source {
  const uint8_t* data;
  const uint8_t* scales;
  GpuMatrixShape shape;
};

// Two numbers as a pair of bf16, the first in the low half.
__device__ inline uint32_t pack_bf16(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// Both halves of a times both of b, rounded to bf16.
__device__ inline uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  // -0 is added: +0 would make a positive zero of a negative one.
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}

__device__ inline float half_bits(uint32_t bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }
__device__ inline float bf16_bits(uint32_t bits) { return __uint_as_float(bits << 16); }
__device__ inline uint32_t load_u16(const uint8_t* at) { return at[0] | uint32_t(at[1]) << 8; }
// at is even.
__device__ inline uint32_t load_even_u16(const uint8_t* at) { return *reinterpret_cast<const uint16_t*>(at); }

// N words from any address, by aligned words.
template <int N>
__device__ inline void load_words(const uint8_t* at, uint32_t (&words)[N]) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto* from = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
  const uint32_t shift = 8 * (address & 3);
  uint32_t low = __ldg(from);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const uint32_t high = i + 1 < N || shift != 0 ? __ldg(from + i + 1) : 0;
    words[i] = __funnelshift_r(low, high, shift);
    low = high;
  }
}

// As load_words, where rows are known to begin on 16 bytes.
template <int N>
__device__ inline void load_aligned(const uint8_t* at, uint32_t (&words)[N]) {
  static_assert(N % 4 == 0);
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(at) + i);
    words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
  }
}
template <bool ALIGNED, int N>
__device__ inline void load_row(const uint8_t* at, uint32_t (&words)[N]) {
  if constexpr (ALIGNED) {
    load_aligned(at, words);
  } else {
    load_words(at, words);
  }
}

// As load_row, of a row that may end before: 0 behind its last n_bytes.
template <bool ALIGNED, int N>
__device__ inline void load_part(const uint8_t* at, int n_bytes, uint32_t (&words)[N]) {
  if constexpr (ALIGNED) {
    load_aligned(at, words);
  } else if (n_bytes >= 4 * N) {
    load_words(at, words);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      words[i] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (4 * i + j < n_bytes) words[i] |= uint32_t(at[4 * i + j]) << (8 * j);
      }
    }
  }
}

// e4m3 (no infinities; its NaN is read as 480), widened.
__device__ inline float e4m3(uint32_t bits) {
  const float magnitude = __uint_as_float((bits & 0x7F) << 20) * 0x1p120F;
  return bits & 0x80 ? -magnitude : magnitude;
}

// 2^(exponent - 127).
__device__ inline float e8m0(uint32_t exponent) {
  return exponent == 0 ? 0x1p-127F : exponent == 255 ? __int_as_float(0x7FC00000) : __uint_as_float(exponent << 23);
}

// A number of `width` bits at bit `shift` of `word`, widened.
__device__ inline float unsigned_bits(uint32_t word, int shift, uint32_t mask) {
  return __uint_as_float(0x4B000000u | ((word >> shift) & mask)) - 0x1p23F;
}

// Every codec has
//   kCols             columns that a lane takes at once: a row's groups are multiples of it, but for plain numbers
//   kSplitsNibbles    pairs are (i, i + 4) of each 8 columns, not (2 i, 2 i + 1)
//   kUnit             what the unpacked numbers have still to be multiplied with
//   Raw, load(source, row, col), unpack(raw, pairs): columns [col, col + kCols) of a row, as pairs of bf16
//   Whole             the same for matrices whose rows begin on 16 bytes and hold whole runs of kCols, which is_whole tells; it
//                     has no code for other rows, and so fits the instruction cache

// Whether every row begins on 16 bytes and is a multiple of `cols` columns.
__device__ inline bool has_whole_rows(const Source& w, int cols) {
  return w.shape.row_bytes % 16 == 0 && w.shape.cols % cols == 0;
}

template <class Number, bool WHOLE>
struct PlainCodec {
  static constexpr int kCols = 8;
  static constexpr bool kSplitsNibbles = false;
  static constexpr float kUnit = 1.0F;
  static constexpr int kWords = 8 * sizeof(Number) / 4;
  struct Raw {
    uint32_t words[kWords];
  };
  __device__ static Raw load(const Source& w, int row, int col) {
    Raw raw;
    const uint8_t* const at = w.data + size_t(row) * w.shape.row_bytes + size_t(col) * sizeof(Number);
    load_part<WHOLE>(at, (w.shape.cols - col) * int(sizeof(Number)), raw.words);
    return raw;
  }
  __device__ static bool is_whole(const Source& w) { return has_whole_rows(w, kCols); }
};

template <bool WHOLE>
struct Bf16 : PlainCodec<uint16_t, WHOLE> {
  using Whole = Bf16<true>;
  using Raw = typename PlainCodec<uint16_t, WHOLE>::Raw;
  static constexpr int kCols = 8;
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[kCols / 2]) {
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) pairs[i] = raw.words[i];
  }
};

template <bool WHOLE>
struct F16 : PlainCodec<uint16_t, WHOLE> {
  using Whole = F16<true>;
  using Raw = typename PlainCodec<uint16_t, WHOLE>::Raw;
  static constexpr int kCols = 8;
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[kCols / 2]) {
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
      pairs[i] = pack_bf16(half_bits(raw.words[i] & 0xFFFF), half_bits(raw.words[i] >> 16));
    }
  }
};

template <bool WHOLE>
struct F32 : PlainCodec<uint32_t, WHOLE> {
  using Whole = F32<true>;
  using Raw = typename PlainCodec<uint32_t, WHOLE>::Raw;
  static constexpr int kCols = 8;
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[kCols / 2]) {
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
      pairs[i] = pack_bf16(__uint_as_float(raw.words[2 * i]), __uint_as_float(raw.words[2 * i + 1]));
    }
  }
};

using Bf16Codec = Bf16<false>;
using F16Codec = F16<false>;
using F32Codec = F32<false>;

// Blocks of 32 numbers: BYTES each, of which CODES come last.
template <int BYTES, int CODES>
struct BlockCodec {
  static constexpr int kCols = 32;
  static constexpr bool kSplitsNibbles = false;
  static constexpr float kUnit = 1.0F;
  struct Raw {
    uint32_t head;
    uint32_t codes[CODES / 4];
  };
  __device__ static bool is_whole(const Source&) { return true; }
  __device__ static const uint8_t* block(const Source& w, int row, int col) {
    return w.data + size_t(row) * w.shape.row_bytes + size_t(col / 32) * BYTES;
  }
};

// Nibbles of 16 bytes: the low ones are the first 16 numbers.  value = code * scale + offset
__device__ inline void unpack_nibbles(const uint32_t (&codes)[4], float scale, float offset, uint32_t (&pairs)[16]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = codes[i / 2];
      const int shift = 4 * half + 16 * (i % 2);
      pairs[8 * half + i] = pack_bf16(fmaf(unsigned_bits(word, shift, 15), scale, offset),
                                      fmaf(unsigned_bits(word, shift + 8, 15), scale, offset));
    }
  }
}

struct Q4_0Codec : BlockCodec<18, 16> {
  using Whole = Q4_0Codec;
  __device__ static Raw load(const Source& w, int row, int col) {
    const uint8_t* const at = block(w, row, col);
    Raw raw;
    raw.head = load_even_u16(at);
    load_words(at + 2, raw.codes);
    return raw;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    const float scale = half_bits(raw.head);
    unpack_nibbles(raw.codes, scale, -8 * scale, pairs);
  }
};

struct Q4_1Codec : BlockCodec<20, 16> {
  using Whole = Q4_1Codec;
  __device__ static Raw load(const Source& w, int row, int col) {
    const uint8_t* const at = block(w, row, col);
    Raw raw;
    raw.head = __ldg(reinterpret_cast<const uint32_t*>(at));
    load_words(at + 4, raw.codes);
    return raw;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    unpack_nibbles(raw.codes, half_bits(raw.head & 0xFFFF), half_bits(raw.head >> 16), pairs);
  }
};

struct Q8_0Codec : BlockCodec<34, 32> {
  using Whole = Q8_0Codec;
  __device__ static Raw load(const Source& w, int row, int col) {
    const uint8_t* const at = block(w, row, col);
    Raw raw;
    raw.head = load_even_u16(at);
    load_words(at + 2, raw.codes);
    return raw;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    const float scale = half_bits(raw.head);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const uint32_t biased = raw.codes[i / 2] ^ 0x80808080u;
      const int shift = 16 * (i % 2);
      pairs[i] = pack_bf16((unsigned_bits(biased, shift, 255) - 128) * scale,
                           (unsigned_bits(biased, shift + 8, 255) - 128) * scale);
    }
  }
};

// Superblocks of 256 in 8 sub-blocks of 32, each with a scale and a minimum of 6 bits.
struct Q4_KCodec {
  using Whole = Q4_KCodec;
  __device__ static bool is_whole(const Source&) { return true; }
  static constexpr int kCols = 32;
  static constexpr bool kSplitsNibbles = false;
  static constexpr float kUnit = 1.0F;
  struct Raw {
    uint32_t head[4];  // d, dmin; 12 bytes of scales and minima
    uint32_t codes[8];
    int sub;
  };
  __device__ static Raw load(const Source& w, int row, int col) {
    const uint8_t* const at = w.data + size_t(row) * w.shape.row_bytes + size_t(col / 256) * 144;
    Raw raw;
    raw.sub = col % 256 / 32;
    load_aligned(at, raw.head);
    load_aligned(at + 16 + 32 * (raw.sub / 2), raw.codes);
    return raw;
  }
  // No array by a variable: it would lie in memory.
  __device__ static uint32_t byte_of(const Raw& raw, int i) {
    const uint32_t word = i < 4 ? raw.head[1] : i < 8 ? raw.head[2] : raw.head[3];
    return (word >> (8 * (i % 4))) & 255;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    const int j = raw.sub;
    const uint32_t scale6 = j < 4 ? byte_of(raw, j) & 63 : (byte_of(raw, j + 4) & 15) | (byte_of(raw, j - 4) >> 6) << 4;
    const uint32_t min6 = j < 4 ? byte_of(raw, j + 4) & 63 : byte_of(raw, j + 4) >> 4 | (byte_of(raw, j) >> 6) << 4;
    const float scale = half_bits(raw.head[0] & 0xFFFF) * float(scale6);
    const float offset = -half_bits(raw.head[0] >> 16) * float(min6);
    const int nibble = 4 * (j % 2);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int shift = nibble + 16 * (i % 2);
      pairs[i] = pack_bf16(fmaf(unsigned_bits(raw.codes[i / 2], shift, 15), scale, offset),
                           fmaf(unsigned_bits(raw.codes[i / 2], shift + 8, 15), scale, offset));
    }
  }
};

// Superblocks of 256 in 16 sub-blocks of 16; 210 bytes: low nibbles, high pairs of bits, int8 scales, d.
struct Q6_KCodec {
  using Whole = Q6_KCodec;
  __device__ static bool is_whole(const Source&) { return true; }
  static constexpr int kCols = 32;
  static constexpr bool kSplitsNibbles = false;
  static constexpr float kUnit = 1.0F;
  struct Raw {
    uint32_t low[8];
    uint32_t high[8];
    uint32_t scales;  // of both halves
    uint32_t d;
    int part;  // of 32, within 128
  };
  __device__ static Raw load(const Source& w, int row, int col) {
    const uint8_t* const at = w.data + size_t(row) * w.shape.row_bytes + size_t(col / 256) * 210;
    const int half = col % 256 / 128;
    Raw raw;
    raw.part = col % 128 / 32;
    load_words(at + 64 * half + 32 * (raw.part % 2), raw.low);
    load_words(at + 128 + 32 * half, raw.high);
    raw.scales = load_even_u16(at + 192 + 8 * half + 2 * raw.part);
    raw.d = load_even_u16(at + 208);
    return raw;
  }
  __device__ static float value(const Raw& raw, int i, float scale) {
    const uint32_t low = raw.low[i / 4] >> (8 * (i % 4) + 4 * (raw.part / 2)) & 15;
    const uint32_t high = raw.high[i / 4] >> (8 * (i % 4) + 2 * raw.part) & 3;
    return (unsigned_bits(low | high << 4, 0, 63) - 32) * scale;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    const float d = half_bits(raw.d);
    const float first = d * float(int8_t(raw.scales & 255));
    const float second = d * float(int8_t(raw.scales >> 8));
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float scale = i < 8 ? first : second;
      pairs[i] = pack_bf16(value(raw, 2 * i, scale), value(raw, 2 * i + 1, scale));
    }
  }
};

// The four codes (i, i + 4) of a word of eight e2m1 numbers as pairs of bf16, 2^-126 of what they stand for: a code's exponent
// and fraction lie in a bf16 as in itself, one with the smallest exponents.
__device__ inline void spread_e2m1(uint32_t word, uint32_t (&pairs)[4]) {
  pairs[0] = (word << 12 & 0x80008000u) | (word << 6 & 0x01C001C0u);
  pairs[1] = (word << 8 & 0x80008000u) | (word << 2 & 0x01C001C0u);
  pairs[2] = (word << 4 & 0x80008000u) | (word >> 2 & 0x01C001C0u);
  pairs[3] = (word & 0x80008000u) | (word >> 6 & 0x01C001C0u);
}

// A lane's 32 columns have two e4m3 scales. A code times a scale has at most 6 bits: exact.
template <bool WHOLE>
struct Nvfp4 {
  using Whole = Nvfp4<true>;
  __device__ static bool is_whole(const Source& w) { return has_whole_rows(w, kCols); }
  static constexpr int kCols = 32;
  static constexpr bool kSplitsNibbles = true;
  static constexpr float kUnit = 0x1p26F;
  struct Raw {
    uint32_t codes[4];
    uint32_t scales;
  };
  __device__ static Raw load(const Source& w, int row, int col) {
    Raw raw;
    load_row<WHOLE>(w.data + size_t(row) * w.shape.row_bytes + col / 2, raw.codes);
    const uint8_t* const scales = w.scales + size_t(row) * w.shape.scale_row_bytes + col / 16;
    raw.scales = WHOLE ? load_even_u16(scales) : load_u16(scales);
    return raw;
  }
  // 2^100 of an e4m3 scale, twice.
  __device__ static uint32_t factor(uint32_t scale) {
    const float value = e4m3(scale) * 0x1p100F;
    return pack_bf16(value, value);
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) {
    const uint32_t factors[2] = {factor(raw.scales & 255), factor(raw.scales >> 8)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t four[4];
      spread_e2m1(raw.codes[i], four);
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs[4 * i + j] = multiply_bf16(four[j], factors[i / 2]);
    }
  }
};

using Nvfp4Codec = Nvfp4<false>;

// e2m1 codes of 32 columns, all with one scale of a power of two.
__device__ inline void unpack_mxfp4(const uint32_t (&codes)[4], uint32_t exponent, uint32_t (&pairs)[16]) {
  const float scale = e8m0(exponent);
  const uint32_t factor = pack_bf16(scale, scale);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t four[4];
    spread_e2m1(codes[i], four);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      constexpr uint32_t kTwoTo126 = 0x7E807E80u;
      pairs[4 * i + j] = multiply_bf16(multiply_bf16(four[j], kTwoTo126), factor);
    }
  }
}

template <bool WHOLE>
struct Mxfp4 {
  using Whole = Mxfp4<true>;
  __device__ static bool is_whole(const Source& w) { return has_whole_rows(w, kCols); }
  static constexpr int kCols = 32;
  static constexpr bool kSplitsNibbles = true;
  static constexpr float kUnit = 1.0F;
  struct Raw {
    uint32_t codes[4];
    uint32_t exponent;
  };
  __device__ static Raw load(const Source& w, int row, int col) {
    Raw raw;
    load_row<WHOLE>(w.data + size_t(row) * w.shape.row_bytes + col / 2, raw.codes);
    raw.exponent = w.scales[size_t(row) * w.shape.scale_row_bytes + col / 32];
    return raw;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[16]) { unpack_mxfp4(raw.codes, raw.exponent, pairs); }
};

using Mxfp4Codec = Mxfp4<false>;

// e4m3 numbers times a scale that a block of rows and columns shares.
template <bool WHOLE>
struct Fp8 {
  using Whole = Fp8<true>;
  __device__ static bool is_whole(const Source& w) { return has_whole_rows(w, kCols); }
  static constexpr int kCols = 16;
  static constexpr bool kSplitsNibbles = false;
  static constexpr float kUnit = 1.0F;
  struct Raw {
    uint32_t codes[4];
    float scale;
  };
  __device__ static float scale_at(const Source& w, int row, int col) {
    if (w.scales == nullptr) return 1.0F;
    const size_t bytes = size_t(row / w.shape.block_rows) * w.shape.scale_row_bytes;
    const uint8_t* const of_row = w.scales + bytes;
    const int block = col / w.shape.block_cols;
    switch (w.shape.scale_format) {
      case 0:
        return reinterpret_cast<const float*>(of_row)[block];
      case 1:
        return bf16_bits(reinterpret_cast<const uint16_t*>(of_row)[block]);
      case 2:
        return half_bits(reinterpret_cast<const uint16_t*>(of_row)[block]);
      default:
        return e8m0(of_row[block]);
    }
  }
  __device__ static Raw load(const Source& w, int row, int col) {
    Raw raw;
    const uint8_t* const at = w.data + size_t(row) * w.shape.row_bytes + col;
    raw.scale = scale_at(w, row, col);
    load_part<WHOLE>(at, w.shape.cols - col, raw.codes);
    return raw;
  }
  __device__ static void unpack(const Raw& raw, uint32_t (&pairs)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t two = raw.codes[i / 2] >> (16 * (i % 2));
      pairs[i] = pack_bf16(e4m3(two & 255) * raw.scale, e4m3(two >> 8 & 255) * raw.scale);
    }
  }
};

using Fp8Codec = Fp8<false>;

}  // namespace penstock::gpu
