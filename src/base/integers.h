// Division and rounding upwards.
#pragma once

#include <concepts>
#include <type_traits>

namespace penstock {

// n >= 0, d > 0; n + d - 1 must not overflow.
template <std::integral T>
constexpr T ceil_div(T n, std::type_identity_t<T> d) {
  return (n + d - 1) / d;
}

// The least multiple of `step` that is at least n.
template <std::integral T>
constexpr T round_up(T n, std::type_identity_t<T> step) {
  return ceil_div(n, step) * step;
}

}  // namespace penstock
