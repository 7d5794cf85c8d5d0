#include "cpu/isa.h"

#include <cpuid.h>

#include <algorithm>
#include <string>

#include "os/environment.h"

namespace penstock {
namespace {

constexpr std::string_view kNames[] = {"scalar", "avx2", "avx512", "amx"};

constexpr bool has_all(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

uint64_t read_xcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr uint32_t kAvxVnniBit = 1U << 4;  // clang's <cpuid.h> has no name for GCC's bit_AVXVNNI

std::string names_of(const std::vector<Isa>& isas) {
  std::string names;
  for (const Isa isa : isas) names.append(names.empty() ? "" : ", ").append(to_string(isa));
  return names;
}

}  // namespace

CpuidWords read_cpuid() {
  CpuidWords words;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) words.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    words.leaf7_edx = edx;
  }
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) words.leaf7_1_eax = eax;
  if (has_all(words.leaf1_ecx, bit_OSXSAVE)) words.xcr0 = read_xcr0();
  return words;
}

std::string_view to_string(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::vector<Isa> isas_of(const CpuidWords& words) {
  constexpr uint64_t kYmmState = 0x06;      // SSE and AVX registers
  constexpr uint64_t kZmmState = 0xE6;      // and masks, upper halves, registers 16 to 31
  constexpr uint64_t kTileState = 0x60000;  // AMX's configuration and its data
  // Leaf 7's EDX: bf16, tiles, int8. GCC and clang do not spell AMX's bits alike in <cpuid.h>.
  constexpr uint64_t kAmxBits = (1U << 22) | (1U << 24) | (1U << 25);
  constexpr uint64_t kAvx512Bits =
      uint64_t{bit_AVX512F} | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  std::vector<Isa> isas = {Isa::kScalar};
  if (!has_all(words.leaf1_ecx, uint64_t{bit_OSXSAVE} | bit_AVX | bit_FMA | bit_F16C) ||
      !has_all(words.leaf7_ebx, bit_AVX2) || !has_all(words.xcr0, kYmmState)) {
    return isas;
  }
  isas.push_back(Isa::kAvx2);
  if (has_all(words.leaf7_ebx, kAvx512Bits) && has_all(words.leaf7_ecx, bit_AVX512VNNI) &&
      has_all(words.xcr0, kZmmState)) {
    isas.push_back(Isa::kAvx512);
  } else {
    return isas;
  }
  if (has_all(words.leaf7_edx, kAmxBits) && has_all(words.leaf7_1_eax, bit_AVX512BF16) &&
      has_all(words.xcr0, kTileState)) {
    isas.push_back(Isa::kAmx);
  }
  return isas;
}

bool has_avx_vnni(const CpuidWords& words) {
  return isas_of(words).back() >= Isa::kAvx2 && has_all(words.leaf7_1_eax, kAvxVnniBit);
}

bool has_avx_vnni() {
  static const bool has = has_avx_vnni(read_cpuid());
  return has;
}

Result<Isa> choose_isa() {
  const std::vector<Isa> supported = supported_isas();
  const std::string_view wanted = environment_variable("PENSTOCK_CPU_ISA");
  if (wanted.empty()) return supported.back();

  const auto found = std::find_if(supported.begin(), supported.end(),
                                  [&](Isa isa) { return to_string(isa) == wanted; });
  if (found != supported.end()) return *found;
  const bool is_known = std::find(std::begin(kNames), std::end(kNames), wanted) != std::end(kNames);
  return fail(is_known ? ErrorKind::kUnsupported : ErrorKind::kInvalidArgument,
              "PENSTOCK_CPU_ISA is '{}', {}; this machine has: {}", wanted,
              is_known ? "which this machine cannot run" : "which is no instruction level",
              names_of(supported));
}

}  // namespace penstock
