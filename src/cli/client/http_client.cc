#include "cli/client/http_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "base/version.h"
#include "server/await.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Cause = CallFailure::Cause;
using Socket = asio::generic::stream_protocol;  // TCP or Unix
using Stream = beast::basic_stream<Socket, asio::any_io_executor>;
using Parser = http::response_parser<http::buffer_body>;

constexpr size_t kMaxBodyBytes = 64 * kMiB;
constexpr size_t kMaxErrorBytes = 64 * kKiB;  // of a refusal's body: more is not read
constexpr size_t kReadBytes = 16 * kKiB;

std::string why(error_code ec) {
  std::string text = ec.message();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

bool is_cut(error_code ec) {
  return ec == http::error::end_of_stream || ec == http::error::partial_message ||
         ec == asio::error::eof || ec == asio::error::connection_reset ||
         ec == asio::error::broken_pipe;
}

}  // namespace

class HttpClient::Connection {
 public:
  Connection(asio::any_io_executor executor, ClientOptions options)
      : options_(std::move(options)), executor_(std::move(executor)) {}

  asio::awaitable<CallResult<HttpReply>> call(HttpCall call, BodySink sink);
  void stop();

 private:
  using Endpoints = std::vector<Socket::endpoint>;

  asio::awaitable<CallResult<HttpReply>> try_call(const HttpCall& call, const BodySink& sink);
  asio::awaitable<std::optional<CallFailure>> connect();
  asio::awaitable<CallResult<Endpoints>> resolve();
  asio::awaitable<error_code> send(const HttpCall& call);
  asio::awaitable<CallResult<HttpReply>> read_body(const HttpCall& call, Parser& parser,
                                                   const BodySink& sink);
  CallFailure failure(error_code ec, const HttpCall& call) const;
  CallFailure cannot_connect(std::string_view reason) const;
  CallFailure refusal(const HttpReply& reply, const HttpCall& call) const;
  void wait_for(std::chrono::milliseconds limit) { stream_->expires_after(limit); }

  ClientOptions options_;
  asio::any_io_executor executor_;
  std::optional<Stream> stream_ = {};  // open, or absent
  beast::flat_buffer buffer_ = {};     // read and not yet parsed
  bool stopped_ = false;
  bool nothing_came_ = false;  // of the answer to the call in progress
};

asio::awaitable<CallResult<HttpReply>> HttpClient::Connection::call(HttpCall call, BodySink sink) {
  stopped_ = false;
  const bool reused = stream_.has_value();
  auto reply = co_await try_call(call, sink);
  // The server may have closed an idle connection just before this call reached it: then it has not
  // seen the call.
  if (!reply && reused && nothing_came_ && reply.error().cause == Cause::kCut) {
    reply = co_await try_call(call, sink);
  }
  co_return reply;
}

void HttpClient::Connection::stop() {
  stopped_ = true;
  if (stream_) stream_->close();
}

asio::awaitable<CallResult<HttpReply>> HttpClient::Connection::try_call(const HttpCall& call,
                                                                        const BodySink& sink) {
  if (!stream_) {
    auto refused = co_await connect();
    if (refused) co_return std::unexpected(std::move(*refused));
  }
  nothing_came_ = true;
  const error_code unsent = co_await send(call);
  // A server that refuses a request may answer and close before it has read it all: the answer says
  // more than the failed write.
  if (unsent && !is_cut(unsent)) co_return std::unexpected(failure(unsent, call));

  Parser parser;
  parser.body_limit(boost::none);
  wait_for(options_.silence_timeout);
  const auto [ec, n] = co_await http::async_read_header(*stream_, buffer_, parser, kAwait);
  nothing_came_ = n == 0 && ec;
  if (ec) {
    const CallFailure failed = failure(ec, call);
    stream_.reset();
    co_return std::unexpected(failed);
  }
  auto reply = co_await read_body(call, parser, sink);
  if (!reply || !parser.is_done() || !parser.keep_alive()) stream_.reset();
  if (reply && reply->status / 100 != 2) co_return std::unexpected(refusal(*reply, call));
  co_return reply;
}

asio::awaitable<std::optional<CallFailure>> HttpClient::Connection::connect() {
  const auto endpoints = co_await resolve();
  if (!endpoints) co_return endpoints.error();
  error_code last = asio::error::host_not_found;
  for (const Socket::endpoint& endpoint : *endpoints) {
    if (stopped_) break;
    buffer_.clear();
    stream_.emplace(executor_);
    wait_for(options_.connect_timeout);
    const auto [ec] = co_await stream_->async_connect(endpoint, kAwait);
    if (!ec) {
      error_code ignored;  // a Unix socket has no such option
      stream_->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
      co_return std::nullopt;
    }
    stream_.reset();
    last = ec;
  }
  if (stopped_) co_return CallFailure{.cause = Cause::kStopped, .message = "stopped"};
  co_return cannot_connect(last == beast::error::timeout ? "no answer" : why(last));
}

asio::awaitable<CallResult<HttpClient::Connection::Endpoints>> HttpClient::Connection::resolve() {
  const ServerUrl& url = options_.url;
  Endpoints endpoints;
  if (url.is_unix()) {
    if (url.socket.size() >= sizeof(sockaddr_un::sun_path)) {
      co_return std::unexpected(cannot_connect("the socket's path is too long"));
    }
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(url.socket));
    co_return endpoints;
  }
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(url.host, ec);
  if (!ec) {
    endpoints.emplace_back(asio::ip::tcp::endpoint(address, url.port));
    co_return endpoints;
  }
  asio::ip::tcp::resolver resolver(executor_);
  const std::string port = std::to_string(url.port);
  const auto [failed, found] = co_await resolver.async_resolve(url.host, port, kAwait);
  if (failed) co_return std::unexpected(cannot_connect(why(failed)));
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  co_return endpoints;
}

asio::awaitable<error_code> HttpClient::Connection::send(const HttpCall& call) {
  http::request<http::string_body> message(http::string_to_verb(call.method),
                                           options_.url.prefix + call.path, /*version=*/11);
  message.set(http::field::host, options_.url.authority());
  message.set(http::field::user_agent, fmt::format("penstock/{}", version()));
  message.set(http::field::accept, "application/json, text/event-stream");
  if (!options_.api_key.empty()) {
    message.set(http::field::authorization, "Bearer " + options_.api_key);
  }
  if (call.method != "GET") message.set(http::field::content_type, "application/json");
  message.body() = call.body;
  message.prepare_payload();
  wait_for(options_.silence_timeout);
  const auto [ec, n] = co_await http::async_write(*stream_, message, kAwait);
  co_return ec;
}

asio::awaitable<CallResult<HttpReply>> HttpClient::Connection::read_body(const HttpCall& call,
                                                                         Parser& parser,
                                                                         const BodySink& sink) {
  HttpReply reply = {.status = parser.get().result_int()};
  const bool to_sink = sink && reply.status / 100 == 2;
  const size_t max_bytes = reply.status / 100 == 2 ? kMaxBodyBytes : kMaxErrorBytes;
  std::array<char, kReadBytes> piece;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    wait_for(options_.silence_timeout);
    const auto [ec, n] = co_await http::async_read_some(*stream_, buffer_, parser, kAwait);
    if (ec && ec != http::error::need_buffer) co_return std::unexpected(failure(ec, call));
    const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
    if (bytes.empty()) continue;
    if (to_sink) {
      if (!sink(bytes)) break;
      continue;
    }
    reply.body += bytes;
    if (reply.body.size() > max_bytes) {
      if (reply.status / 100 != 2) break;  // enough of it to say why
      co_return std::unexpected(CallFailure{
          .cause = Cause::kNotHttp,
          .message = fmt::format("{}: the answer to {} {} is longer than {}", options_.url.text,
                                 call.method, call.path, format_bytes(kMaxBodyBytes))});
    }
  }
  co_return reply;
}

CallFailure HttpClient::Connection::failure(error_code ec, const HttpCall& call) const {
  const std::string where = fmt::format("{}: {} {}", options_.url.text, call.method, call.path);
  if (stopped_) return {.cause = Cause::kStopped, .message = where + " was stopped"};
  if (ec == beast::error::timeout) {
    const auto seconds = std::chrono::duration<double>(options_.silence_timeout).count();
    return {.cause = Cause::kTimeout,
            .message =
                fmt::format("{} timed out: no byte came for {}", where, format_seconds(seconds))};
  }
  if (is_cut(ec)) {
    return {.cause = Cause::kCut,
            .message = where + ": the server closed the connection before its answer was whole"};
  }
  if (ec.category() == http::make_error_code(http::error::bad_version).category()) {
    return {
        .cause = Cause::kNotHttp,
        .message = fmt::format("{}: what answers there does not speak HTTP ({})", where, why(ec))};
  }
  return {.cause = Cause::kCut, .message = fmt::format("{}: {}", where, why(ec))};
}

CallFailure HttpClient::Connection::cannot_connect(std::string_view reason) const {
  return {.cause = Cause::kConnect,
          .message = fmt::format("cannot connect to {}: {}", options_.url.text, reason)};
}

CallFailure HttpClient::Connection::refusal(const HttpReply& reply, const HttpCall& call) const {
  std::string message = error_message(reply.body);
  if (message.empty()) {
    const auto phrase = http::obsolete_reason(http::int_to_status(reply.status));
    message = std::string(phrase.data(), phrase.size());
  }
  return {.cause = Cause::kRefused,
          .status = reply.status,
          .message = fmt::format("{} answered {} {} with {}: {}", options_.url.text, call.method,
                                 call.path, reply.status, message)};
}

HttpClient::HttpClient(asio::any_io_executor executor, ClientOptions options)
    : connection_(std::make_unique<Connection>(std::move(executor), std::move(options))) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

asio::awaitable<CallResult<HttpReply>> HttpClient::call(HttpCall call, BodySink sink) {
  return connection_->call(std::move(call), std::move(sink));
}

void HttpClient::stop() { connection_->stop(); }

}  // namespace penstock
