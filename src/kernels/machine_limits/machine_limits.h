// What this machine can do at most: the rates that a kernel's own are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cpu/isa.h"
#include "cpu/pool.h"

namespace penstock {

// The units that multiply. Each multiplication and each addition is one operation.
enum class Arithmetic : uint8_t {
  kFloat32,    // FMA of the isa's vectors
  kInt8,       // VNNI: int8 products, int32 sums
  kBf16Tiles,  // AMX
  kInt8Tiles,  // AMX
};
inline constexpr Arithmetic kAllArithmetic[] = {Arithmetic::kFloat32, Arithmetic::kInt8,
                                                Arithmetic::kBf16Tiles, Arithmetic::kInt8Tiles};
std::string_view to_string(Arithmetic arithmetic);

// Seconds in which the pool's workers together read `parts` with the isa's widest loads and do
// nothing else.
double read_seconds(Pool& pool, Isa isa, std::span<const std::span<const std::byte>> parts);

// Bytes a second of that: the best of n_passes, after one that is not timed. A memory's rate wants
// more bytes than the caches hold.
double read_rate(Pool& pool, Isa isa, std::span<const std::byte> bytes, int n_passes);

// Operations a second of all workers together in loops that stay in registers: the best of n_passes
// of about pass_seconds each, after one that is not counted. 0: the isa has no such unit.
double arithmetic_rate(Pool& pool, Isa isa, Arithmetic arithmetic, double pass_seconds,
                       int n_passes);

}  // namespace penstock
