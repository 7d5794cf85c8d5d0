// Loops over constants. Only for ISA files.
#pragma once

#include <utility>

namespace penstock {
namespace {

template <int i>
struct Index {
  static constexpr int value = i;
};

// f(Index<0>), ..., f(Index<n - 1>): a loop unrolled from the start. Arrays indexed in an ordinary
// one were found in memory, not in registers (g++ 12).
template <int n, class F>
[[gnu::always_inline]] inline void repeat(F f) {
  const auto call_all = [&]<int... i>(std::integer_sequence<int, i...>)
                            __attribute__((always_inline)) { (f(Index<i>{}), ...); };
  call_all(std::make_integer_sequence<int, n>{});
}

}  // namespace
}  // namespace penstock
