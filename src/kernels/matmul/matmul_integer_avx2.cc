// The integer product on AVX2, whose product of bytes adds two of them in 16 bits that saturate.
#include "kernels/matmul/integer_lanes_avx2.h"
#include "kernels/matmul/integer_product.h"

namespace penstock {
namespace {

// How many pairs of byte products stay exact in 16 bits when added.
constexpr int exact_pairs(int largest_code) { return 32767 / (2 * largest_code * 128); }

struct Avx2Products {
  static constexpr int kTokensAtOnce = 1;  // two were no faster in 16 registers

  template <class Panel, int N>
  [[gnu::always_inline]] static void sum(const Words* codes, const Int16Row* x, int64_t column,
                                         Words (&sums)[N]) {
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t) {
      if constexpr (exact_pairs(Panel::kLargestCode) > 0) {
        sums[t] = add_words(sum_bytes<Panel>(codes, x[t].high + column, _mm256_set1_epi16(256)),
                            sum_bytes<Panel>(codes, x[t].low + column, _mm256_set1_epi16(1)));
      } else {
        sums[t] = sum_halves<Panel>(codes, x[t], column);
      }
    }
  }

 private:
  // The products with one byte of the token's codes, times what `times` has in each 16 bits.
  template <class Panel>
  [[gnu::always_inline]] static Words sum_bytes(const Words* codes, const int8_t* x, Words times) {
    constexpr int kWords = Panel::kGroup / 4;
    constexpr int kAtOnce = std::min(exact_pairs(Panel::kLargestCode), kWords);
    Words sum = all_words(0);
    Words pairs;
#pragma GCC unroll 8
    for (int i = 0; i < kWords; ++i) {
      const Words more = _mm256_maddubs_epi16(codes[i], word_of(x + int64_t{4} * i));
      pairs = i % kAtOnce == 0 ? more : _mm256_add_epi16(pairs, more);
      if (i % kAtOnce == kAtOnce - 1 || i == kWords - 1) {
        sum = add_words(sum, _mm256_madd_epi16(pairs, times));
      }
    }
    return sum;
  }

  // The products of codes of 8 bits with the token's of 16, two of a word's columns at a time.
  template <class Panel>
  [[gnu::always_inline]] static Words sum_halves(const Words* codes, const Int16Row& x,
                                                 int64_t column) {
    static_assert(Panel::kGroup == 32);
    const Words high = load_32(x.high + column);
    const Words low = load_32(x.low + column);
    const Words upper_bytes = _mm256_set1_epi16(static_cast<int16_t>(0xFF00));
    alignas(32) int32_t even[8];  // columns 0 and 2 of each word
    alignas(32) int32_t odd[8];
    store_32(even,
             _mm256_add_epi16(shift_left_16(high, 8), _mm256_srai_epi16(shift_left_16(low, 8), 8)));
    store_32(odd, _mm256_add_epi16(high & upper_bytes, _mm256_srai_epi16(low, 8)));
    // From memory each is broadcast without a shuffle; the compiler would keep them in a register.
    asm("" : "+m"(even), "+m"(odd));
    Words sum_even = all_words(0);
    Words sum_odd = all_words(0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const Words of_even = codes[i] & all_words(0x00FF00FF);
      const Words of_odd = shift_right_16(codes[i], 8);
      sum_even = add_words(sum_even, _mm256_madd_epi16(of_even, all_words(even[i])));
      sum_odd = add_words(sum_odd, _mm256_madd_epi16(of_odd, all_words(odd[i])));
    }
    return add_words(sum_even, sum_odd);
  }

  [[gnu::always_inline]] static Words load_32(const int8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  [[gnu::always_inline]] static void store_32(int32_t* to, Words words) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), words);
  }
};

constexpr IntegerKernels kKernels = make_integer_kernels<LaneProduct<Avx2Products>>();

}  // namespace

const IntegerKernels& integer_kernels_avx2() { return kKernels; }

}  // namespace penstock
