// One client's HTTP connection: requests within limits, responses, streams of events, and the news
// that the client has gone.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/access.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/wakeup.h"

namespace penstock {

struct HttpRequest {
  std::string method = {};
  std::string path = {};  // without the query
  std::string host = {};
  std::string origin = {};
  std::string content_type = {};
  std::string authorization = {};  // a secret
  std::string body = {};
  unsigned version = 11;  // 10: HTTP/1.0
  bool keep_alive = true;
  // Set by Access:
  std::optional<size_t> key = {};  // which of the server's keys it came with
  std::string allow_origin = {};   // the web page that may read the answer
};

struct HttpResponse {
  unsigned status = 200;
  std::string body = {};
  std::string_view content_type = "application/json";             // a constant
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside the usual ones
  bool retry_later = false;
  std::function<void()> after = {};  // to be called once it has been sent
};

// So that the web page the request came from may read the response.
void add_cors_headers(HttpResponse& response, const HttpRequest& request);

struct ConnectionClosed {};

// A request; what to answer to one that breaks HTTP's rules or our limits, or whose header Access
// had an answer to; or the end.
using HttpRead = std::variant<HttpRequest, HttpResponse, ConnectionClosed>;

// One thread: the server's. Held by a shared_ptr, for the watching
// coroutine's sake.
class HttpStream : public std::enable_shared_from_this<HttpStream> {
 public:
  // A socket of either kind, TCP's or a path's.
  using Socket = boost::asio::generic::stream_protocol::socket;

  // All must outlive this.
  HttpStream(Socket socket, const ServerOptions& options, const Access& access, Metrics& metrics);

  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

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
  const Access& access_;
  Metrics& metrics_;
  boost::beast::basic_stream<boost::asio::generic::stream_protocol> stream_;
  boost::beast::flat_buffer buffer_;  // read and not yet parsed
  bool chunked_ = true;               // the events being sent
  bool watching_ = false;
  bool watch_running_ = false;
  Wakeup watch_ended_;
};

}  // namespace penstock
