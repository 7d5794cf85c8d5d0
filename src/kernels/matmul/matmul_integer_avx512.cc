// The integer product on AVX-512 VNNI, for 16 rows at a time. For a group of columns
//   sum w x = factor scale (sum u code) + offset (scale sum code)
// where w = factor u + offset, u an unsigned code of at most 8 bits; the sum of products is exact
// in int32 and the last bracket known from the activations.
#include <algorithm>
#include <limits>

#include "kernels/matmul/integer_kernels.h"
#include "kernels/matmul/integer_panels_avx512.h"
#include "kernels/matmul/prefetch_x86.h"

namespace penstock {
namespace {

[[gnu::always_inline]] inline __m512i word_of(const int8_t* codes) {
  int32_t word;
  std::memcpy(&word, codes, sizeof word);
  return _mm512_set1_epi32(word);
}

// The products of N tokens with a group whose codes are in registers. Byte products are added in
// several chains, or each would wait for the one before.
template <int kGroup, int N>
[[gnu::always_inline]] inline void sum_products(const __m512i* codes, const Int16Row* x,
                                                int64_t column, __m512i (&sums)[N]) {
  constexpr int kChains = N == 1 ? 2 : 1;
  __m512i high[N][kChains];
  __m512i low[N][kChains];
#pragma GCC unroll 8
  for (int i = 0; i < kGroup / 4; ++i) {
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t) {
      const int chain = i % kChains;
      const bool first = i < kChains;
      high[t][chain] = _mm512_dpbusd_epi32(first ? _mm512_setzero_si512() : high[t][chain],
                                           codes[i], word_of(x[t].high + column + 4 * i));
      low[t][chain] = _mm512_dpbusd_epi32(first ? _mm512_setzero_si512() : low[t][chain], codes[i],
                                          word_of(x[t].low + column + 4 * i));
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < N; ++t) {
    if constexpr (kChains == 2) {
      high[t][0] = _mm512_add_epi32(high[t][0], high[t][1]);
      low[t][0] = _mm512_add_epi32(low[t][0], low[t][1]);
    }
    sums[t] = _mm512_add_epi32(_mm512_slli_epi32(high[t][0], 8), low[t][0]);
  }
}

// Adds one group's share to each token's sums.
template <int kGroup, int T>
[[gnu::always_inline]] inline void add_group(const __m512i* codes, __m512 factors, __m512 offsets,
                                             const Int16Row* x, int64_t group, __m512 (&sums)[T]) {
  constexpr int kAtOnce = T < 4 ? T : 4;  // as many as there are registers for
#pragma GCC unroll 2
  for (int first = 0; first < T; first += kAtOnce) {
    __m512i products[kAtOnce];
    sum_products<kGroup, kAtOnce>(codes, x + first, group * kGroup, products);
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      const Int16Row& token = x[first + i];
      const float* const code_sums = kGroup == 32 ? token.sums_32 : token.sums_16;
      const __m512 scale = _mm512_set1_ps(token.scales[group * kGroup / kInt16Group]);
      __m512& sum = sums[first + i];
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[i]), _mm512_mul_ps(factors, scale), sum);
      sum = _mm512_fmadd_ps(offsets, _mm512_set1_ps(code_sums[group]), sum);
    }
  }
}

template <class Panel, int T>
[[gnu::always_inline]] inline void multiply_tokens(Panel& panel, Ahead ahead, const Int16Row* x,
                                                   __m512 (&sums)[T]) {
  constexpr int kGroupWords = Panel::kGroup / 4;
  for (int64_t step = 0; step < panel.n_steps; ++step) {
    ahead.ask();
    panel.load();
#pragma GCC unroll 4
    for (int part = 0; part < Panel::kParts; ++part) {
      __m512i codes[Panel::kPartGroups * kGroupWords];
      panel.codes(part, codes);
#pragma GCC unroll 4
      for (int i = 0; i < Panel::kPartGroups; ++i) {
        const int group = Panel::group_of(part, i);
        add_group<Panel::kGroup, T>(codes + i * kGroupWords, panel.factors(group),
                                    panel.offsets(group), x, step * Panel::kStepGroups + group,
                                    sums);
      }
    }
    panel.advance();
  }
}

// y[t, r] of the panel's rows r that `stored` has, for T tokens. [ahead, ahead_end): what to read
// next from memory.
template <class Panel, int T>
void multiply_panel(const StoredRows& w, int64_t row, const uint8_t* ahead,
                    const uint8_t* ahead_end, const Int16Row* x, float scale, __mmask16 stored,
                    float* y, int64_t y_stride) {
  Panel panel(w, row);
  __m512 sums[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sums[t] = _mm512_setzero_ps();
  multiply_tokens<Panel, T>(panel, Ahead(ahead, ahead_end, panel.n_steps), x, sums);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    _mm512_mask_storeu_ps(y + t * y_stride, stored, _mm512_mul_ps(sums[t], _mm512_set1_ps(scale)));
  }
}

// Eight tokens at a time, then four, two, one: what a token gets does not depend on the others.
template <class Panel>
void multiply_rows(const StoredRows& w, int64_t n_rows, Range rows, const Int16Row* x,
                   int64_t n_tokens, float scale, float* y, int64_t y_stride) {
  for (int64_t begin = rows.begin; begin < rows.end; begin += kPanelRows) {
    // The last panel may reach back over rows that are not asked for, whose sums go nowhere.
    const int64_t row = std::min(begin, n_rows - kPanelRows);
    const int64_t n_stored = std::min(rows.end - begin, int64_t{kPanelRows});
    const auto stored = static_cast<__mmask16>(((1U << n_stored) - 1) << (begin - row));
    float* const to = y + row;
    const uint8_t* ahead = w.data + static_cast<size_t>(begin + kPanelRows) * w.row_bytes;
    const uint8_t* const ahead_end = ahead + kPanelRows * w.row_bytes;
    int64_t t = 0;
    const auto multiply = [&]<int T>() {
      multiply_panel<Panel, T>(w, row, ahead, ahead_end, x + t, scale, stored, to + t * y_stride,
                               y_stride);
      ahead = ahead_end;  // once
      t += T;
    };
    while (t + 8 <= n_tokens) multiply.template operator()<8>();
    if (t + 4 <= n_tokens) multiply.template operator()<4>();
    if (t + 2 <= n_tokens) multiply.template operator()<2>();
    if (t < n_tokens) multiply.template operator()<1>();
  }
}

constexpr IntegerKernels make_kernels() {
  IntegerKernels kernels;
  const auto set = [&](Format format, MultiplyIntegerRows kernel) {
    kernels.multiply_rows[static_cast<size_t>(format)] = kernel;
  };
  set(Format::kQ4_0, multiply_rows<Q4_0Panel>);
  set(Format::kQ4_1, multiply_rows<Q4_1Panel>);
  set(Format::kQ8_0, multiply_rows<Q8_0Panel>);
  set(Format::kQ4_K, multiply_rows<Q4_KPanel>);
  set(Format::kQ6_K, multiply_rows<Q6_KPanel>);
  set(Format::kMxfp4Block, multiply_rows<Mxfp4BlockPanel>);
  set(Format::kMxfp4, multiply_rows<Mxfp4Panel>);
  set(Format::kNvfp4Block, multiply_rows<Nvfp4BlockPanel>);
  set(Format::kNvfp4, multiply_rows<Nvfp4Panel>);
  return kernels;
}
constexpr IntegerKernels kKernels = make_kernels();

}  // namespace

const IntegerKernels& integer_kernels_avx512() { return kKernels; }

}  // namespace penstock
