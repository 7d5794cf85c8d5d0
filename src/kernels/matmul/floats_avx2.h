// Arithmetic on one AVX2 register of float32. Only for files named *_avx2.cc.
#pragma once

#include <immintrin.h>

namespace penstock {
namespace {

using Floats = __m256;

[[gnu::always_inline]] inline Floats broadcast(const float& x) { return _mm256_broadcast_ss(&x); }
[[gnu::always_inline]] inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
[[gnu::always_inline]] inline Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
[[gnu::always_inline]] inline Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
// a b + c and a b - c, rounded once.
[[gnu::always_inline]] inline Floats mul_add(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats mul_sub(Floats a, Floats b, Floats c) {
  return _mm256_fmsub_ps(a, b, c);
}

}  // namespace
}  // namespace penstock
