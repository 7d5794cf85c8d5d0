// What a coroutine of a connection waits for: something has changed, look again.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace penstock {

// One thread: the strand's. One waiter.
class Wakeup {
 public:
  explicit Wakeup(const boost::asio::any_io_executor& strand) : timer_(strand) {}

  void notify() {
    pending_ = true;
    timer_.cancel();
  }

  // Returns at once when notified since the last wait.
  boost::asio::awaitable<void> wait() {
    while (!pending_) {
      timer_.expires_at(boost::asio::steady_timer::time_point::max());
      co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    pending_ = false;
  }

 private:
  boost::asio::steady_timer timer_;  // never expires; cancelled to wake
  bool pending_ = false;
};

}  // namespace penstock
