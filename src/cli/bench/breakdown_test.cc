#include "cli/bench/breakdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

// Two steps of 4 s: norms 1 s without work to count, products 6 s, and 1 s that nobody claims.
Profile two_steps() {
  Profile profile;
  for (int i = 0; i < 2; ++i) {
    profile.add(Operation::kNorm, {.n_calls = 2, .seconds = 0.5});
    profile.add(Operation::kQkv, {.n_calls = 1,
                                  .seconds = 3,
                                  .waiting_seconds = 0.5,
                                  .work = {.bytes = 6e9, .operations = 9e9}});
    profile.add_step({.n_calls = 1, .seconds = 4, .waiting_seconds = 0.75});
  }
  return profile;
}

TEST(Breakdown, LinesAreOfOneStepAndSumToTheWhole) {
  const auto lines = breakdown_lines(two_steps());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].operation, "norms");
  EXPECT_EQ(lines[0].seconds, 0.5);
  EXPECT_EQ(lines[1].operation, "q, k, v product");
  EXPECT_EQ(lines[1].seconds, 3);
  EXPECT_EQ(lines[1].share, 0.75);
  EXPECT_EQ(lines[1].waiting_seconds, 0.5);
  EXPECT_EQ(lines[1].bytes_a_second(), 2e9);
  EXPECT_EQ(lines[1].operations_a_second(), 3e9);
  EXPECT_EQ(lines[2].operation, "other");
  EXPECT_EQ(lines[2].seconds, 0.5);
  EXPECT_EQ(lines[2].waiting_seconds, 0.25);

  const BreakdownLine whole = whole_step(two_steps());
  double seconds = 0, share = 0, waiting = 0;
  for (const BreakdownLine& line : lines) {
    seconds += line.seconds;
    share += line.share;
    waiting += line.waiting_seconds;
  }
  EXPECT_EQ(seconds, whole.seconds);
  EXPECT_EQ(share, 1);
  EXPECT_EQ(waiting, whole.waiting_seconds);
  EXPECT_EQ(whole.seconds, 4);
  EXPECT_EQ(whole.bytes_a_second(), 1.5e9);
}

TEST(Breakdown, TheTableSaysNothingOfWhatIsNotCounted) {
  EXPECT_EQ(breakdown_table("decode", two_steps(), 80),
            "decode step            ms   share  waiting ms       MB  GB/s  GOP/s\n"
            "norms             500.000   12.5%       0.000        -     -      -\n"
            "q, k, v product  3000.000   75.0%     500.000  6000.00  2.00   3.00\n"
            "other             500.000   12.5%     250.000        -     -      -\n"
            "whole step       4000.000  100.0%     750.000  6000.00  1.50   2.25\n");
}

TEST(Breakdown, JsonHasTheSameLines) {
  const Json json = breakdown_json(two_steps());
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["seconds"], 4);
  EXPECT_EQ(json["bytes"], 6e9);
  ASSERT_EQ(json["by_operation"].size(), 3U);
  EXPECT_EQ(json["by_operation"][1]["operation"], "q, k, v product");
  EXPECT_EQ(json["by_operation"][1]["bytes_s"], 2e9);
  EXPECT_TRUE(json["by_operation"][0]["bytes"].is_null());
}

}  // namespace
}  // namespace penstock
