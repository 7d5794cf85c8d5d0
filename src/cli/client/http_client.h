// An HTTP/1.1 client of one server: keep-alive, bodies of any framing, events as they come.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "cli/client/call.h"
#include "cli/client/server_url.h"

namespace penstock {

struct ClientOptions {
  ServerUrl url = {};
  std::string api_key = {};  // sent as a bearer token; empty: none
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  std::chrono::milliseconds silence_timeout = std::chrono::seconds(300);  // no byte for so long
};

// One thread: the executor's. One call at a time, on one connection that is opened when it is
// needed and kept. A kept connection that turns out to be closed is opened again, once.
class HttpClient {
 public:
  HttpClient(boost::asio::any_io_executor executor, ClientOptions options);
  HttpClient(HttpClient&&) noexcept;
  ~HttpClient();

  // Without a sink the reply has the whole body, up to 64 MiB.
  boost::asio::awaitable<CallResult<HttpReply>> call(HttpCall call, BodySink sink);

  // Ends the call in progress with kStopped, and the connection.
  void stop();

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace penstock
