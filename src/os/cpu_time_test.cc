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
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (thread_cpu_seconds() - slept < 0.01 && std::chrono::steady_clock::now() < limit) {
  }
  EXPECT_GE(thread_cpu_seconds() - slept, 0.01);
}

}  // namespace
}  // namespace penstock
