// The instruction level a kernel was written for, and the one this process uses.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };
std::string_view to_string(Isa isa);

// What this machine can run, slowest first; always begins with kScalar.
std::vector<Isa> supported_isas();
// The best supported level, or the one PENSTOCK_CPU_ISA names; an unknown or unsupported name is an
// error that lists the rest.
Result<Isa> choose_isa();

}  // namespace penstock
