#include "server/http_stream.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <utility>

#include "base/units.h"
#include "base/version.h"
#include "server/await.h"
#include "server/error_response.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxReadAhead = 64 * 1024;
constexpr auto kLinger = std::chrono::seconds(2);

HttpResponse refusal(unsigned status, std::string_view message) {
  return {.status = status, .body = error_body(status, message)};
}

// What to say about a failed read: an answer where HTTP's rules were broken, silence where the
// connection was.
HttpRead failed_read(error_code ec, const ServerOptions& options) {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return refusal(431, fmt::format("the request's header is longer than {}",
                                    format_bytes(options.max_header_bytes)));
  }
  if (ec == http::error::body_limit) {
    return refusal(413, fmt::format("the request's body is longer than {}",
                                    format_bytes(options.max_body_bytes)));
  }
  const bool cut_off = ec == http::error::end_of_stream || ec == http::error::partial_message;
  if (!cut_off && ec.category() == http::make_error_code(http::error::bad_method).category()) {
    return refusal(400, fmt::format("this is no HTTP request: {}", ec.message()));
  }
  return ConnectionClosed{};
}

template <class Message>
void set_common_fields(Message& message, bool keep_alive) {
  message.set(http::field::server, fmt::format("penstock/{}", version()));
  message.keep_alive(keep_alive);
}

// Without the body.
HttpRequest request_of(const http::request<http::string_body>& message) {
  const std::string_view target(message.target().data(), message.target().size());
  return {.method = std::string(message.method_string()),
          .path = std::string(target.substr(0, target.find('?'))),
          .host = std::string(message[http::field::host]),
          .origin = std::string(message[http::field::origin]),
          .content_type = std::string(message[http::field::content_type]),
          .authorization = std::string(message[http::field::authorization]),
          .version = message.version(),
          .keep_alive = message.keep_alive()};
}

}  // namespace

void add_cors_headers(HttpResponse& response, const HttpRequest& request) {
  if (request.allow_origin.empty()) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", request.allow_origin);
  response.headers.emplace_back("Vary", "Origin");
}

HttpStream::HttpStream(Socket socket, const ServerOptions& options, const Access& access,
                       Metrics& metrics)
    : options_(options),
      access_(access),
      metrics_(metrics),
      stream_(std::move(socket)),
      watch_ended_(stream_.get_executor()) {
  error_code ignored;  // of a connection that is gone already: the first read will say so
  stream_.socket().non_blocking(true, ignored);
}

asio::awaitable<bool> HttpStream::await_first_byte() {
  if (buffer_.size() > 0) co_return true;
  stream_.expires_after(options_.idle_timeout);
  const auto [ec, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
  buffer_.commit(n);
  co_return !ec;
}

asio::awaitable<HttpRead> HttpStream::read() {
  if (!co_await await_first_byte()) co_return ConnectionClosed{};

  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  parser.body_limit(options_.max_body_bytes);
  stream_.expires_after(options_.read_timeout);
  const auto [header_ec, n_header] =
      co_await http::async_read_header(stream_, buffer_, parser, kAwait);
  if (header_ec) co_return failed_read(header_ec, options_);
  HttpRequest request = request_of(parser.get());
  if (auto answer = access_.check(request)) co_return *std::move(answer);

  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    if (!co_await send("HTTP/1.1 100 Continue\r\n\r\n")) co_return ConnectionClosed{};
  }
  stream_.expires_after(options_.read_timeout);
  const auto [body_ec, n_body] = co_await http::async_read(stream_, buffer_, parser, kAwait);
  if (body_ec) co_return failed_read(body_ec, options_);
  request.body = std::move(parser.get().body());
  co_return request;
}

asio::awaitable<bool> HttpStream::write(const HttpRequest& request, HttpResponse response,
                                        bool keep_alive) {
  http::response<http::string_body> message(http::int_to_status(response.status), request.version);
  set_common_fields(message, keep_alive);
  if (!response.body.empty()) message.set(http::field::content_type, response.content_type);
  add_cors_headers(response, request);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  if (response.retry_later) message.set(http::field::retry_after, "1");
  metrics_.count_response(response.status);
  message.body() = std::move(response.body);
  message.prepare_payload();
  http::response_serializer<http::string_body> serializer(message);
  stream_.expires_after(options_.write_timeout);
  if (request.method == "HEAD") {
    const auto [ec, n] = co_await http::async_write_header(stream_, serializer, kAwait);
    co_return !ec;
  }
  const auto [ec, n] = co_await http::async_write(stream_, serializer, kAwait);
  co_return !ec;
}

asio::awaitable<bool> HttpStream::begin_events(const HttpRequest& request, bool keep_alive) {
  chunked_ =
      request.version >= 11;  // HTTP/1.0 knows no chunks: the stream's end is the connection's
  http::response<http::empty_body> message(http::status::ok, request.version);
  set_common_fields(message, keep_alive);
  message.set(http::field::content_type, "text/event-stream");
  message.set(http::field::cache_control, "no-cache");
  HttpResponse cors;
  add_cors_headers(cors, request);
  for (const auto& [name, value] : cors.headers) message.set(name, value);
  metrics_.count_response(200);
  if (chunked_) message.chunked(true);
  http::response_serializer<http::empty_body> serializer(message);
  stream_.expires_after(options_.write_timeout);
  const auto [ec, n] = co_await http::async_write_header(stream_, serializer, kAwait);
  co_return !ec;
}

asio::awaitable<bool> HttpStream::send_events(std::string_view events) {
  if (!chunked_) co_return co_await send(events);
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  co_return co_await send(chunk);
}

asio::awaitable<bool> HttpStream::end_events() {
  if (!chunked_) co_return true;
  co_return co_await send("0\r\n\r\n");
}

asio::awaitable<bool> HttpStream::send(std::string_view bytes) {
  // Nearly always the socket takes all at once, with no timer and no turn of the loop.
  error_code ec;
  const size_t n_sent = stream_.socket().send(asio::buffer(bytes), 0, ec);
  if (ec && ec != asio::error::would_block) co_return false;
  bytes.remove_prefix(ec ? 0 : n_sent);
  if (bytes.empty()) co_return true;
  stream_.expires_after(options_.write_timeout);
  const auto [write_ec, n_written] =
      co_await asio::async_write(stream_, asio::buffer(bytes), kAwait);
  co_return !write_ec;
}

void HttpStream::watch(std::function<void()> on_gone) {
  watching_ = true;
  watch_running_ = true;
  asio::co_spawn(executor(), run_watch(shared_from_this(), std::move(on_gone)), asio::detached);
}

asio::awaitable<void> HttpStream::run_watch([[maybe_unused]] std::shared_ptr<HttpStream> self,
                                            std::function<void()> on_gone) {
  stream_.expires_never();
  while (watching_ && buffer_.size() < kMaxReadAhead) {
    const auto [ec, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
    buffer_.commit(n);
    if (!ec) continue;
    if (watching_) on_gone();
    break;
  }
  watch_running_ = false;
  watch_ended_.notify();
}

asio::awaitable<void> HttpStream::stop_watching() {
  watching_ = false;
  if (watch_running_) stream_.cancel();
  while (watch_running_) co_await watch_ended_.wait();
}

asio::awaitable<void> HttpStream::close_gently() {
  error_code ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  stream_.expires_after(kLinger);
  for (;;) {
    buffer_.clear();
    const auto [ec, n] = co_await stream_.async_read_some(buffer_.prepare(64 * 1024), kAwait);
    if (ec) break;  // its end, or the timer's
  }
  stream_.close();
}

}  // namespace penstock
