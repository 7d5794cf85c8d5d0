#include "os/cpu_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace penstock {
namespace {

TEST(CpuTime, CountsWorkAndNotSleep) {
  const double began = thread_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double slept = thread_cpu_seconds();
  EXPECT_LT(slept - began, 0.04);
  double worked = slept;
  while (worked - slept < 0.01) worked = thread_cpu_seconds();
  EXPECT_GT(worked, slept);
}

}  // namespace
}  // namespace penstock
