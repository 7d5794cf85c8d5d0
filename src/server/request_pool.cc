#include "server/request_pool.h"

#include <boost/asio/post.hpp>

#include "os/thread_name.h"

namespace penstock {

RequestPool::RequestPool() {
  boost::asio::post(pool_, [] { name_this_thread("requests"); });
}

void RequestPool::stop() {
  pool_.stop();
  pool_.join();
}

}  // namespace penstock
