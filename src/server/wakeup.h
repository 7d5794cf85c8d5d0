// What a coroutine of a connection waits for: something has changed, look again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "server/await.h"

namespace penstock {

// One thread: the strand's. One waiter.
class Wakeup {
 public:
  explicit Wakeup(const boost::asio::any_io_executor& strand) : timer_(strand) {}

  void notify() {
    pending_ = true;
    timer_.cancel();
  }

  // Returns at once when notified since the last wait; false when the time has come instead.
  boost::asio::awaitable<bool> wait_until(std::chrono::steady_clock::time_point limit) {
    while (!pending_) {
      if (std::chrono::steady_clock::now() >= limit) co_return false;
      timer_.expires_at(limit);
      co_await timer_.async_wait(kAwait);
    }
    pending_ = false;
    co_return true;
  }

  boost::asio::awaitable<void> wait() {
    co_await wait_until(std::chrono::steady_clock::time_point::max());
  }

 private:
  boost::asio::steady_timer timer_;  // cancelled to wake
  bool pending_ = false;
};

}  // namespace penstock
