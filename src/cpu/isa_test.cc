#include "cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Bits by their numbers in Intel's manual, written out apart from the code's names.
constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
constexpr uint32_t kAvx2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
constexpr uint32_t kVnni = 1u << 11;
constexpr uint32_t kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25, kBf16 = 1u << 5;
constexpr CpuidWords kFull = {.leaf1_ecx = kFma | kOsxsave | kAvx | kF16c,
                              .leaf7_ebx = kAvx2 | kF | kDq | kBw | kVl,
                              .leaf7_ecx = kVnni,
                              .leaf7_edx = kAmxBf16 | kAmxTile | kAmxInt8,
                              .leaf7_1_eax = kBf16,
                              .xcr0 = 0x600E7};

TEST(Isa, NeedsEveryFeatureItsFilesAreCompiledWith) {
  EXPECT_THAT(isas_of(kFull), ElementsAre(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx));
  for (const uint32_t missing : {kAmxBf16, kAmxTile, kAmxInt8}) {
    CpuidWords words = kFull;
    words.leaf7_edx &= ~missing;
    EXPECT_EQ(isas_of(words).back(), Isa::kAvx512) << missing;
  }
  CpuidWords no_bf16 = kFull;
  no_bf16.leaf7_1_eax = 0;
  EXPECT_EQ(isas_of(no_bf16).back(), Isa::kAvx512);
  for (const uint32_t missing : {kF, kDq, kBw, kVl}) {
    CpuidWords words = kFull;
    words.leaf7_ebx &= ~missing;
    EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar, Isa::kAvx2)) << missing;
  }
  for (const uint32_t missing : {kFma, kOsxsave, kAvx, kF16c}) {
    CpuidWords words = kFull;
    words.leaf1_ecx &= ~missing;
    EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar)) << missing;
  }
  CpuidWords words = kFull;
  words.leaf7_ecx = 0;
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar, Isa::kAvx2));
  words.leaf7_ebx &= ~kAvx2;
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar));
}

TEST(Isa, NeedsAnOsThatSavesTheRegisters) {
  CpuidWords words = kFull;
  words.xcr0 = 0xE7;  // no tiles
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar, Isa::kAvx2, Isa::kAvx512));
  words.xcr0 = 0x60007;  // no AVX-512 state
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar, Isa::kAvx2));
  words.xcr0 = 0x67;  // registers 16 to 31 missing
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar, Isa::kAvx2));
  words.xcr0 = 0x03;
  EXPECT_THAT(isas_of(words), ElementsAre(Isa::kScalar));
}

TEST(Isa, AvxVnniNeedsAvx2AndItsOwnBit) {
  constexpr uint32_t kAvxVnni = 1u << 4;
  CpuidWords words = kFull;
  EXPECT_FALSE(has_avx_vnni(words));
  words.leaf7_1_eax |= kAvxVnni;
  EXPECT_TRUE(has_avx_vnni(words));
  words.leaf7_ebx = kAvx2;
  EXPECT_TRUE(has_avx_vnni(words));
  words.xcr0 = 0x03;  // no upper halves of registers
  EXPECT_FALSE(has_avx_vnni(words));
}

TEST(Isa, AgreesWithTheCompilersOwnDetection) {
  const std::vector<Isa> isas = supported_isas();
  EXPECT_EQ(isas.size() > 1, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(isas.size() > 2,
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"));
}

void wish_for(const std::string& isa) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this test has no other thread
  ::setenv("PENSTOCK_CPU_ISA", isa.c_str(), 1);
}

void wish_for_nothing() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this test has no other thread
  ::unsetenv("PENSTOCK_CPU_ISA");
}

TEST(Isa, TheEnvironmentOverrides) {
  wish_for_nothing();
  EXPECT_EQ(choose_isa().value(), supported_isas().back());
  for (const Isa isa : supported_isas()) {
    wish_for(std::string(to_string(isa)));
    EXPECT_EQ(choose_isa().value(), isa);
  }
  wish_for("");
  EXPECT_EQ(choose_isa().value(), supported_isas().back());
  wish_for("sse2");
  const auto refused = choose_isa();
  wish_for_nothing();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("'sse2'"));
  EXPECT_THAT(refused.error().message, HasSubstr("scalar"));
}

}  // namespace
}  // namespace penstock
