// ggml's blocks, each read element by element as docs/formats.md writes them: B is the block's
// bytes, e the element, nibble(b, half) the low (0) or high (1) four bits of b.
#include <array>

#include "base/check.h"
#include "tensor/codec_parts.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

constexpr std::array<float, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

unsigned nibble(uint8_t b, unsigned half) { return (b >> (4 * half)) & 15u; }
float half_at(const uint8_t* b) { return f16_to_f32(load_unaligned<uint16_t>(b)); }
float to_float(int value) { return static_cast<float>(value); }
float to_float(unsigned value) { return static_cast<float>(value); }

void widen_q4_0(const uint8_t* B, float* y) {
  const float d = half_at(B);
  for (unsigned e = 0; e < 32; ++e) {
    const int q = static_cast<int>(nibble(B[2 + e % 16], e / 16));
    y[e] = d * to_float(q - 8);
  }
}

void widen_q4_1(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const float m = half_at(B + 2);
  for (unsigned e = 0; e < 32; ++e) {
    const unsigned q = nibble(B[4 + e % 16], e / 16);
    y[e] = d * to_float(q) + m;
  }
}

void widen_q5_0(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const auto high = load_unaligned<uint32_t>(B + 2);
  for (unsigned e = 0; e < 32; ++e) {
    const unsigned q = nibble(B[6 + e % 16], e / 16) | ((high >> e) & 1u) << 4;
    y[e] = d * to_float(static_cast<int>(q) - 16);
  }
}

void widen_q5_1(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const float m = half_at(B + 2);
  const auto high = load_unaligned<uint32_t>(B + 4);
  for (unsigned e = 0; e < 32; ++e) {
    const unsigned q = nibble(B[8 + e % 16], e / 16) | ((high >> e) & 1u) << 4;
    y[e] = d * to_float(q) + m;
  }
}

void widen_q8_0(const uint8_t* B, float* y) {
  const float d = half_at(B);
  for (unsigned e = 0; e < 32; ++e) y[e] = d * to_float(static_cast<int8_t>(B[2 + e]));
}

void widen_q2_k(const uint8_t* B, float* y) {
  const float d = half_at(B + 80);
  const float m = half_at(B + 82);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned q = (B[16 + 32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4))) & 3u;
    const uint8_t k = B[e / 16];
    y[e] = d * to_float(nibble(k, 0)) * to_float(q) - m * to_float(nibble(k, 1));
  }
}

void widen_q3_k(const uint8_t* B, float* y) {
  const uint8_t* packed_scales = B + 96;
  const float d = half_at(B + 108);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned n = e / 128;
    const unsigned s = e / 32 % 4;
    const unsigned j = e / 16;
    const unsigned low = (B[32 + 32 * n + e % 32] >> (2 * s)) & 3u;
    const bool high = ((B[e % 32] >> (4 * n + s)) & 1u) != 0;
    const unsigned k = nibble(packed_scales[j % 8], j / 8) |
                       ((packed_scales[8 + j % 4] >> (2 * (j / 4))) & 3u) << 4;
    y[e] =
        d * to_float(static_cast<int>(k) - 32) * to_float(static_cast<int>(low) - (high ? 0 : 4));
  }
}

// The eight 6-bit scales and minima of Q4_K and Q5_K, packed into 12 bytes.
struct KScale {
  unsigned scale = 0;
  unsigned min = 0;
};
KScale k_scale(const uint8_t* S, unsigned j) {
  if (j < 4) return {S[j] & 63u, S[j + 4] & 63u};
  return {nibble(S[j + 4], 0) | (S[j - 4] >> 6) << 4, nibble(S[j + 4], 1) | (S[j] >> 6) << 4};
}

void widen_q4_k(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const float m = half_at(B + 2);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned j = e / 32;
    const KScale k = k_scale(B + 4, j);
    const unsigned q = nibble(B[16 + 32 * (j / 2) + e % 32], j % 2);
    y[e] = d * to_float(k.scale) * to_float(q) - m * to_float(k.min);
  }
}

void widen_q5_k(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const float m = half_at(B + 2);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned j = e / 32;
    const KScale k = k_scale(B + 4, j);
    const unsigned high = (B[16 + e % 32] >> j) & 1u;
    const unsigned q = nibble(B[48 + 32 * (j / 2) + e % 32], j % 2) | high << 4;
    y[e] = d * to_float(k.scale) * to_float(q) - m * to_float(k.min);
  }
}

void widen_q6_k(const uint8_t* B, float* y) {
  const float d = half_at(B + 208);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned n = e / 128;
    const unsigned k = e / 32 % 4;
    const unsigned l = e % 32;
    const unsigned q =
        nibble(B[64 * n + 32 * (k % 2) + l], k / 2) | ((B[128 + 32 * n + l] >> (2 * k)) & 3u) << 4;
    const auto scale = static_cast<int8_t>(B[192 + e / 16]);
    y[e] = d * to_float(scale) * to_float(static_cast<int>(q) - 32);
  }
}

void widen_iq4_nl(const uint8_t* B, float* y) {
  const float d = half_at(B);
  for (unsigned e = 0; e < 32; ++e) y[e] = d * kIq4Values[nibble(B[2 + e % 16], e / 16)];
}

void widen_iq4_xs(const uint8_t* B, float* y) {
  const float d = half_at(B);
  const auto high = load_unaligned<uint16_t>(B + 2);
  for (unsigned e = 0; e < 256; ++e) {
    const unsigned j = e / 32;
    const unsigned i = e % 32;
    const unsigned s = nibble(B[4 + j / 2], j % 2) | ((high >> (2 * j)) & 3u) << 4;
    const float value = kIq4Values[nibble(B[8 + 16 * j + i % 16], i / 16)];
    y[e] = d * to_float(static_cast<int>(s) - 32) * value;
  }
}

void widen_mxfp4(const uint8_t* B, float* y) {
  const float scale = e8m0_to_f32(B[0]);
  for (unsigned e = 0; e < 32; ++e) y[e] = e2m1_to_f32(nibble(B[1 + e % 16], e / 16)) * scale;
}

void widen_nvfp4(const uint8_t* B, float* y) {
  for (unsigned e = 0; e < 64; ++e) {
    const unsigned k = e / 16;
    const unsigned i = e % 16;
    y[e] = e2m1_to_f32(nibble(B[4 + 8 * k + i % 8], i / 8)) * ue4m3_to_f32(B[k]);
  }
}

using WidenBlock = void (*)(const uint8_t* B, float* y);

WidenBlock widener(Format format) {
  switch (format) {
    case Format::kQ4_0:
      return widen_q4_0;
    case Format::kQ4_1:
      return widen_q4_1;
    case Format::kQ5_0:
      return widen_q5_0;
    case Format::kQ5_1:
      return widen_q5_1;
    case Format::kQ8_0:
      return widen_q8_0;
    case Format::kQ2_K:
      return widen_q2_k;
    case Format::kQ3_K:
      return widen_q3_k;
    case Format::kQ4_K:
      return widen_q4_k;
    case Format::kQ5_K:
      return widen_q5_k;
    case Format::kQ6_K:
      return widen_q6_k;
    case Format::kIQ4_NL:
      return widen_iq4_nl;
    case Format::kIQ4_XS:
      return widen_iq4_xs;
    case Format::kMxfp4Block:
      return widen_mxfp4;
    case Format::kNvfp4Block:
      return widen_nvfp4;
    default:
      return nullptr;
  }
}

}  // namespace

void widen_ggml(const MatrixView& matrix, int64_t row, Range cols, float* out) {
  const FormatInfo& f = info(matrix.format);
  const WidenBlock widen = widener(matrix.format);
  PENSTOCK_CHECK(widen != nullptr, "not a format of ggml blocks");
  const auto* bytes = reinterpret_cast<const uint8_t*>(matrix.data.data());
  bytes += static_cast<size_t>(row) * row_bytes(matrix.format, matrix.cols);
  for (int64_t k = cols.begin; k < cols.end; k += f.group) {
    widen(bytes + row_bytes(matrix.format, k), out + (k - cols.begin));
  }
}

}  // namespace penstock
