#include "memory/profile/measure_gpu.h"

#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "cuda/fake_driver.h"
#include "memory/pin_store.h"

namespace penstock {
namespace {

constexpr GpuEffort kEffort = {.copy_bytes = 32 * kMiB, .most_pinned_bytes = 100 * kMiB};

void expect_all_given_back(const FakeDriver& driver) {
  EXPECT_EQ(driver.n_registrations(), 0u);
  EXPECT_EQ(driver.device_bytes_used(), 0u);
}

TEST(MeasureGpu, EveryKindOfCopyHasARate) {
  FakeDriver driver({.device_bytes = kGiB});
  const auto measured = measure_gpu(driver, kEffort);
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_EQ(measured->vram.total_bytes, kGiB);
  for (const double rate :
       {measured->to_gpu, measured->to_host, measured->experts_to_gpu, measured->pageable_to_gpu}) {
    EXPECT_GT(rate, 0.0);
  }
  EXPECT_EQ(measured->pins.pinned_bytes, 100 * kMiB);
  EXPECT_FALSE(measured->pins.was_refused);
  expect_all_given_back(driver);
}

// To within the smallest piece that a load would try.
TEST(MeasureGpu, TheProbeFindsTheQuota) {
  FakeDriver driver({.pins = {.total_bytes = 70 * kMiB}});
  const auto measured = measure_gpu(driver, kEffort);
  ASSERT_TRUE(measured) << measured.error().text();
  EXPECT_LE(measured->pins.pinned_bytes, 70 * kMiB);
  EXPECT_GT(measured->pins.pinned_bytes, 70 * kMiB - kSmallestPinBytes);
  EXPECT_TRUE(measured->pins.was_refused);
  expect_all_given_back(driver);
}

// One call grants no more than 5 MiB: no copy could be timed as a whole.
TEST(MeasureGpu, ACopyThatCannotBePinnedAtOnceIsAnError) {
  FakeDriver driver({.pins = {.call_bytes = 5 * kMiB}});
  const auto measured = measure_gpu(driver, kEffort);
  ASSERT_FALSE(measured);
  EXPECT_NE(measured.error().message.find("does not page-lock 32.0 MiB at once"), std::string::npos)
      << measured.error().text();
  expect_all_given_back(driver);
}

// Whichever call is refused, and from then on: one error or a measurement, and nothing stays.
TEST(MeasureGpu, NoRefusalLeavesAnythingBehind) {
  FakeDriver counting;
  ASSERT_TRUE(measure_gpu(counting, kEffort));
  int n_errors = 0;
  for (int64_t first = 1; first <= counting.n_calls(); ++first) {
    FakeDriver driver({.refusals = {{.first = first, .count = 1}}});
    const auto measured = measure_gpu(driver, kEffort);
    n_errors += measured ? 0 : 1;
    if (!measured) {
      EXPECT_FALSE(measured.error().text().empty());
    }
    EXPECT_FALSE(driver.take_pending_error()) << first;
  }
  EXPECT_GT(n_errors, 10);
}

}  // namespace
}  // namespace penstock
