#include "kernels/bench/measurement.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace penstock {
namespace {

TEST(Summary, IsTheMiddleAndTheEndsOfTheSamples) {
  const Summary odd = summary({5, 1, 3});
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.most, 5);
  EXPECT_EQ(summary({4, 1, 3, 2}).median, 2.5);
}

// A machine on which the first runs are slow, as the first touch of memory is.
TEST(TimeRuns, ASampleIsAsManyRunsAsItsTimeTakes) {
  std::vector<int64_t> asked;
  int64_t n_done = 0;
  const auto seconds_of = [&](int64_t n) {
    asked.push_back(n);
    double seconds = 0;
    for (int64_t i = 0; i < n; ++i) seconds += n_done++ < 10 ? 1e-3 : 1e-4;
    return seconds;
  };
  const Summary found = time_runs({.n_samples = 3, .sample_seconds = 0.02}, seconds_of);
  EXPECT_NEAR(found.least, 1e-4, 1e-9);
  EXPECT_NEAR(found.median, 1e-4, 1e-9);
  EXPECT_NEAR(found.most, 1e-4, 1e-9);
  ASSERT_GE(asked.size(), 4U);
  const int64_t n = asked.back();
  EXPECT_GE(static_cast<double>(n) * 1e-4, 0.02 * 0.999);
  EXPECT_LE(n, 400);  // not ten times more than was asked for
  EXPECT_EQ(std::vector(asked.end() - 3, asked.end()), std::vector(3, n));
}

TEST(TimeRuns, OneLongRunIsASample) {
  std::vector<int64_t> asked;
  const auto seconds_of = [&](int64_t n) {
    asked.push_back(n);
    return 2.0 * static_cast<double>(n);
  };
  EXPECT_EQ(time_runs({.n_samples = 2, .sample_seconds = 0.02}, seconds_of).median, 2);
  EXPECT_EQ(asked, (std::vector<int64_t>{1, 1, 1}));
}

KernelMeasurement measured(BenchMemory memory) {
  return {.bench = {.memory = memory,
                    .work = {.bytes = 10e9, .operations = 4e9, .arithmetic = Arithmetic::kInt8}},
          .n_threads = 2,
          .seconds = {.least = 0.25, .median = 0.5, .most = 1}};
}

TEST(KernelMeasurement, RatesAreOfTheMedianAndSharesOfTheRightLimit) {
  MachineRates machine = {.read_huge = 40e9, .read_small = 10e9};
  machine.of(Arithmetic::kFloat32) = 1e9;
  machine.of(Arithmetic::kInt8) = 16e9;
  const KernelMeasurement row = measured(BenchMemory::kHugePages);
  EXPECT_DOUBLE_EQ(row.bytes_a_second(), 20e9);
  EXPECT_DOUBLE_EQ(row.operations_a_second(), 8e9);
  EXPECT_DOUBLE_EQ(row.share_of_read(machine).value(), 0.5);
  EXPECT_DOUBLE_EQ(row.share_of_arithmetic(machine).value(), 0.5);
  // What small pages cost shows in the share of what huge ones would give.
  EXPECT_DOUBLE_EQ(measured(BenchMemory::kSmallPages).share_of_read(machine).value(), 0.5);
}

TEST(KernelMeasurement, NoShareWhereThereIsNoLimit) {
  MachineRates machine = {.read_huge = 40e9, .read_small = 10e9};
  KernelMeasurement row = measured(BenchMemory::kCache);
  EXPECT_FALSE(row.share_of_read(machine));
  EXPECT_FALSE(row.share_of_arithmetic(machine));  // this machine has no int8 unit
  machine.of(Arithmetic::kInt8) = 16e9;
  EXPECT_TRUE(row.share_of_arithmetic(machine));
  row.bench.work.operations = 0;  // not counted
  EXPECT_FALSE(row.share_of_arithmetic(machine));
}

TEST(MachineRates, TheBetterOfTwoIsTakenRateByRate) {
  MachineRates a = {.read_huge = 3, .read_small = 1};
  MachineRates b = {.read_huge = 2, .read_small = 2};
  a.of(Arithmetic::kFloat32) = 5;
  b.of(Arithmetic::kBf16Tiles) = 7;
  const MachineRates best = better_of(a, b);
  EXPECT_EQ(best.read_huge, 3);
  EXPECT_EQ(best.read_small, 2);
  EXPECT_EQ(best.of(Arithmetic::kFloat32), 5);
  EXPECT_EQ(best.of(Arithmetic::kBf16Tiles), 7);
  EXPECT_EQ(best.of(Arithmetic::kInt8), 0);
}

TEST(KernelBenches, NamesAreUniqueAndEachHasWorkToDo) {
  std::set<std::string> names;
  for (const Isa isa : kAllIsas) {
    for (const KernelBench& bench : kernel_benches(isa)) {
      EXPECT_TRUE(names.insert(bench.name()).second) << bench.name();
      EXPECT_EQ(bench.name().find(' '), std::string::npos) << bench.name();
      EXPECT_GT(bench.work.bytes, 0) << bench.name();
      EXPECT_GT(bench.n_tokens, 0) << bench.name();
    }
  }
}

// A product reads its weights once, however many tokens there are: Q4_0 has 18 bytes for 32.
TEST(KernelBenches, BytesAndOperationsAreThoseOfTheShape) {
  for (const KernelBench& bench : kernel_benches(Isa::kAvx2)) {
    if (bench.name() == "matmul-exact/q4_0/cache/avx2/8") {
      EXPECT_EQ(bench.work.bytes, 576 * 1536 / 32 * 18 + 4 * 8 * (576 + 1536));
      EXPECT_EQ(bench.work.operations, 2.0 * 8 * 576 * 1536);
      return;
    }
  }
  FAIL() << "no such benchmark";
}

TEST(BenchArena, KeepsItsMemoryAndGrowsWhereItMust) {
  BenchArena arena(1 << 20);
  const auto first = arena.take(BenchMemory::kHugePages, 1000);
  first[999] = std::byte{7};
  EXPECT_EQ(arena.take(BenchMemory::kCache, 1000)[999], std::byte{7});
  EXPECT_NE(arena.take(BenchMemory::kSmallPages, 1000).data(), first.data());
  EXPECT_EQ(arena.take(BenchMemory::kHugePages, 1 << 22).size(), size_t{1} << 22);
}

}  // namespace
}  // namespace penstock
