#include <cpuid.h>
#include <gtest/gtest.h>

#include <array>

#include "cpu/isa.h"
#include "kernels/tile_session.h"

namespace penstock {
namespace {

TEST(SoftwareTiles, MakeAmxASupportedInstructionSet) {
  if (supported_isas().back() < Isa::kAvx512) GTEST_SKIP() << "the processor has no AVX-512";
  if ((read_cpuid().leaf7_1_eax & bit_AVX512BF16) == 0) GTEST_SKIP() << "the processor has no bf16";
  EXPECT_EQ(supported_isas().back(), Isa::kAmx);
}

// What software tiles are made of is AVX-512.
bool has_software_tiles() { return supported_isas().back() == Isa::kAmx; }

// [2, 8] times [8, 3], in groups of four bytes: shapes that use a part of their tiles.
TEST(SoftwareTiles, MultiplyBytes) {
  if (!has_software_tiles()) GTEST_SKIP() << "the processor has no AVX-512 with bf16";
  const TileSession session(std::array<TileShape, 8>{TileShape{2, 12}, {2, 8}, {2, 12}});
  int8_t a[2][8], b[2][12];
  for (int i = 0; i < 16; ++i) a[i / 8][i % 8] = static_cast<int8_t>(i * 37 - 128);
  for (int i = 0; i < 24; ++i) b[i / 12][i % 12] = static_cast<int8_t>(100 - i * 9);
  int32_t sums[2][3] = {{1, 2, 3}, {4, 5, 6}};
  int32_t expected[2][3];
  for (int m = 0; m < 2; ++m) {
    for (int n = 0; n < 3; ++n) {
      expected[m][n] = sums[m][n];
      for (int k = 0; k < 8; ++k) expected[m][n] += a[m][k] * b[k / 4][4 * n + k % 4];
    }
  }
  _tile_loadd(0, sums, sizeof sums[0]);
  _tile_loadd(1, a, sizeof a[0]);
  _tile_loadd(2, b, sizeof b[0]);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, sums, sizeof sums[0]);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sums[i / 3][i % 3], expected[i / 3][i % 3]) << i;
}

TEST(SoftwareTilesDeathTest, ShapesThatDoNotFitEndTheProgram) {
  if (!has_software_tiles()) GTEST_SKIP() << "the processor has no AVX-512 with bf16";
  const TileSession session(std::array<TileShape, 8>{TileShape{2, 12}, {2, 8}, {3, 12}});
  EXPECT_DEATH(_tile_dpbssd(0, 1, 2), "");
}

}  // namespace
}  // namespace penstock
