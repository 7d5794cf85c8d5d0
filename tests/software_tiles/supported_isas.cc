// In place of src/cpu/supported_isas.cc: with software tiles, AMX needs of the processor only what
// its files use beside tiles.
#include <cpuid.h>

#include "cpu/isa.h"

namespace penstock {

std::vector<Isa> supported_isas() {
  static const std::vector<Isa> isas = [] {
    const CpuidWords words = read_cpuid();
    std::vector<Isa> all = isas_of(words);
    const bool has_bf16 = (words.leaf7_1_eax & bit_AVX512BF16) != 0;
    if (all.back() == Isa::kAvx512 && has_bf16) all.push_back(Isa::kAmx);
    return all;
  }();
  return isas;
}

}  // namespace penstock
