// The loops behind machine_limits.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

inline constexpr size_t kReadStep = 512;  // bytes

// Reads whole steps of `bytes`; what it returns depends on every one.
uint64_t read_all_avx2(std::span<const std::byte> bytes);
uint64_t read_all_avx512(std::span<const std::byte> bytes);

// One round is the loop's body; `sink` takes a number that depends on every product.
struct ArithmeticLoop {
  void (*run)(int64_t n_rounds, float* sink) = nullptr;
  double operations_a_round = 0;
};
ArithmeticLoop float32_loop_avx2();
ArithmeticLoop float32_loop_avx512();
ArithmeticLoop int8_loop_avx512();
ArithmeticLoop bf16_tiles_loop_amx();
ArithmeticLoop int8_tiles_loop_amx();

}  // namespace penstock
