// What a coroutine of a connection waits for: something has changed, look again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

#include "server/await.h"

namespace penstock {

// One thread: the server's. One waiter.
class Wakeup {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Wakeup(const boost::asio::any_io_executor& executor)
      : timers_(std::make_shared<Timers>(executor)) {}

  void notify() {
    pending_ = true;
    timers_->wake.cancel();
  }

  // Returns at once when notified since the last wait; false when the time has come instead.
  boost::asio::awaitable<bool> wait_until(Clock::time_point limit) {
    while (!pending_) {
      if (Clock::now() >= limit) co_return false;
      ring_before(limit);
      timers_->wake.expires_at(Clock::time_point::max());
      co_await timers_->wake.async_wait(kAwait);
    }
    pending_ = false;
    co_return true;
  }

  boost::asio::awaitable<void> wait() { co_await wait_until(Clock::time_point::max()); }

 private:
  // Setting a timer is a system call, and a token's way to its client has none to spare: the wait
  // itself has no end, and the alarm stays set from wait to wait until it rings.
  struct Timers {
    explicit Timers(const boost::asio::any_io_executor& executor)
        : wake(executor), alarm(executor) {}
    boost::asio::steady_timer wake;   // cancelled to wake
    boost::asio::steady_timer alarm;  // cancels `wake`
    Clock::time_point rings_at = Clock::time_point::max();
  };

  void ring_before(Clock::time_point limit) {
    if (limit >= timers_->rings_at) return;
    timers_->rings_at = limit;
    timers_->alarm.expires_at(limit);
    timers_->alarm.async_wait([weak = std::weak_ptr(timers_)](boost::system::error_code ec) {
      const auto timers = weak.lock();
      if (ec || timers == nullptr) return;  // set again, or over
      timers->rings_at = Clock::time_point::max();
      timers->wake.cancel();
    });
  }

  std::shared_ptr<Timers> timers_;
  bool pending_ = false;
};

}  // namespace penstock
