// The instruction level a kernel was written for, and the one this process uses.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// kAvx2 means AVX2, FMA and F16C; kAvx512 means also F, BW, DQ, VL and VNNI; kAmx means also
// AVX512-BF16 and AMX's tiles of int8 and bf16: what cmake/Rooms.cmake compiles such files with.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAmx };
inline constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};
std::string_view to_string(Isa isa);

// What CPUID and XGETBV answer: Intel's manual, volume 2, CPUID, and volume 1, chapter 13.
struct CpuidWords {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;  // of subleaf 1
  uint64_t xcr0 = 0;         // the register states the OS saves; 0 when it says nothing
};
CpuidWords read_cpuid();  // of this machine
std::vector<Isa> isas_of(const CpuidWords& words);

// What this machine and its OS can run, slowest first; always begins with kScalar. The first call
// asks the OS to let this process use AMX's registers.
std::vector<Isa> supported_isas();
// AVX-VNNI, which some processors without AVX-512 have beside kAvx2.
bool has_avx_vnni(const CpuidWords& words);
bool has_avx_vnni();  // this machine
// The best supported level, or the one PENSTOCK_CPU_ISA names (empty counts as unset); an unknown
// or unsupported name is an error that lists the rest.
Result<Isa> choose_isa();

}  // namespace penstock
