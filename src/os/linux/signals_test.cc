#include "os/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace penstock {
namespace {

TEST(SignalCatcher, TellsSignalsInOrderOfArrival) {
  SignalCatcher catcher({SIGTERM, SIGINT});
  EXPECT_EQ(catcher.take(), std::nullopt);
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(catcher.wait(), SIGINT);
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(catcher.wait(), SIGTERM);
  EXPECT_EQ(catcher.take(), std::nullopt);
}

TEST(SignalCatcher, WakesAWaitThatBeganBefore) {
  SignalCatcher catcher({SIGTERM});
  std::thread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(catcher.wait(), SIGTERM);
  sender.join();
}

TEST(SignalCatcher, PutsBackWhatWasThere) {
  ::signal(SIGINT, SIG_IGN);
  {
    SignalCatcher catcher({SIGINT});
  }
  {
    SignalCatcher again({SIGINT});
  }
  EXPECT_EQ(::signal(SIGINT, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace penstock
