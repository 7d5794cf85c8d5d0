// Where requests are read: templates, tokenising and whatever else of a request takes its time, so
// that the sockets' thread always has time for the tokens of others.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>
#include <utility>

namespace penstock {

// Thread-safe. One thread, for one request at a time.
class RequestPool {
 public:
  RequestPool();
  ~RequestPool() { stop(); }

  // What `work` returns or throws; the caller goes on where it was. What `work` refers to must live
  // until stop() has returned.
  template <class Work>
  boost::asio::awaitable<std::invoke_result_t<Work>> run(Work work) {
    auto running =
        [work = std::move(work)]() mutable -> boost::asio::awaitable<std::invoke_result_t<Work>> {
      co_return work();
    };
    co_return co_await boost::asio::co_spawn(pool_, std::move(running), boost::asio::use_awaitable);
  }

  // What has begun is waited for, the rest never runs. Idempotent.
  void stop();

 private:
  boost::asio::thread_pool pool_{1};
};

}  // namespace penstock
