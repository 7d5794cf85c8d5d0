// The products of bytes where VNNI adds four of them to a lane at once. Included by ISA files after
// their integer_lanes_*.h. Vnni is what differs among them:
//   kTokensAtOnce         as many as there are registers for
//   add(sum, codes, x)    adds the products of four unsigned bytes of codes with four signed ones
#pragma once

#include "kernels/matmul/integer_product.h"

namespace penstock {
namespace {

template <class Vnni>
struct VnniProducts {
  static constexpr int kTokensAtOnce = Vnni::kTokensAtOnce;

  // sums[t]: the products of N tokens with a group whose codes are in registers. They are added in
  // several chains, or each would wait for the one before.
  template <class Panel, int N>
  [[gnu::always_inline]] static void sum(const Words* codes, const Int16Row* x, int64_t column,
                                         Words (&sums)[N]) {
    constexpr int kChains = N == 1 && Panel::kGroup > 16 ? 2 : 1;
    Words high[N][kChains];
    Words low[N][kChains];
#pragma GCC unroll 8
    for (int i = 0; i < Panel::kGroup / 4; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < N; ++t) {
        const int chain = i % kChains;
        const bool first = i < kChains;
        high[t][chain] = Vnni::add(first ? all_words(0) : high[t][chain], codes[i],
                                   word_of(x[t].high + column + int64_t{4} * i));
        low[t][chain] = Vnni::add(first ? all_words(0) : low[t][chain], codes[i],
                                  word_of(x[t].low + column + int64_t{4} * i));
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t) {
      if constexpr (kChains == 2) {
        high[t][0] = add_words(high[t][0], high[t][1]);
        low[t][0] = add_words(low[t][0], low[t][1]);
      }
      sums[t] = add_words(shift_left_32(high[t][0], 8), low[t][0]);
    }
  }
};

}  // namespace
}  // namespace penstock
