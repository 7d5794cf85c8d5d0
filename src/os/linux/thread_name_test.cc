#include "os/thread_name.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <string>
#include <thread>

namespace penstock {
namespace {

std::string name_after(const std::string& name) {
  std::array<char, 32> found = {};
  std::thread([&] {
    name_this_thread(name);
    ::pthread_getname_np(::pthread_self(), found.data(), found.size());
  }).join();
  return found.data();
}

TEST(ThreadName, IsWhatToolsShow) {
  EXPECT_EQ(name_after("engine"), "engine");
  EXPECT_EQ(name_after("a name that is far too long"), "a name that is ");
}

}  // namespace
}  // namespace penstock
