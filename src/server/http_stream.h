// One client's HTTP connection: requests within limits, responses, streams of events, and the news
// that the client has gone.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "server/server.h"
#include "server/wakeup.h"

namespace penstock {

struct HttpRequest {
  std::string method = {};
  std::string path = {};  // without the query
  std::string body = {};
  unsigned version = 11;  // 10: HTTP/1.0
  bool keep_alive = true;
};

struct HttpResponse {
  unsigned status = 200;
  std::string body = {};   // JSON
  std::string allow = {};  // with 405: the methods that are allowed
  bool retry_later = false;
};

struct ConnectionClosed {};

// A request; what to answer to one that breaks HTTP's rules or our limits; or the end.
using HttpRead = std::variant<HttpRequest, HttpResponse, ConnectionClosed>;

// One thread: the strand's, which is the socket's executor. Held by a shared_ptr, for the watching
// coroutine's sake.
class HttpStream : public std::enable_shared_from_this<HttpStream> {
 public:
  HttpStream(boost::asio::ip::tcp::socket socket, const ServerOptions& options);

  boost::asio::any_io_executor strand() { return stream_.get_executor(); }

  boost::asio::awaitable<HttpRead> read();

  // Each returns false when the client is gone or takes nothing for the write timeout.
  boost::asio::awaitable<bool> write(const HttpRequest& request, HttpResponse response,
                                     bool keep_alive);
  boost::asio::awaitable<bool> begin_events(const HttpRequest& request, bool keep_alive);
  boost::asio::awaitable<bool> send_events(std::string_view events);
  boost::asio::awaitable<bool> end_events();

  // Between a request and its answer: reads on, so that the client's leaving is noticed; `on_gone`
  // is then called once. The end of what the client sends counts as leaving: TCP cannot tell a
  // client that has closed from one that has only shut down its sending side. What comes meanwhile
  // is kept, up to a bound, for the next read().
  void watch(std::function<void()> on_gone);
  boost::asio::awaitable<void> stop_watching();

  // Says that nothing more will come, and waits a little for the client to have read it all:
  // closing a socket with unread input would make the other side throw away our last words.
  boost::asio::awaitable<void> close_gently();

 private:
  boost::asio::awaitable<bool> await_first_byte();
  boost::asio::awaitable<bool> send(std::string_view bytes);
  boost::asio::awaitable<void> run_watch(std::shared_ptr<HttpStream> self,
                                         std::function<void()> on_gone);

  const ServerOptions& options_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;  // read and not yet parsed
  bool chunked_ = true;               // the events being sent
  bool watching_ = false;
  bool watch_running_ = false;
  Wakeup watch_ended_;
};

}  // namespace penstock
