#include "server/listener.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "server/await.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr size_t kMaxPathBytes = 107;  // sockaddr_un's, less the NUL

// Takes away a socket that nobody listens on any more.
Result<void> remove_stale(asio::io_context& context, const std::string& path) {
  std::error_code gone;
  const auto status = std::filesystem::symlink_status(path, gone);
  if (!std::filesystem::exists(status)) return {};
  if (!std::filesystem::is_socket(status)) {
    return fail(ErrorKind::kInvalidArgument, "cannot listen on {}: it exists and is no socket",
                path);
  }
  stream_protocol::socket probe(context);
  error_code ec;
  probe.connect(stream_protocol::endpoint(path), ec);
  if (!ec) return fail(ErrorKind::kIo, "cannot listen on {}: another program does", path);
  if (ec != asio::error::connection_refused) {
    return fail(ErrorKind::kIo, "cannot listen on {}: {}", path, ec.message());
  }
  std::filesystem::remove(path, gone);
  return {};
}

template <class Acceptor>
void begin_listening(Acceptor& acceptor, error_code& ec) {
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
}

}  // namespace

void Listener::RemovePath::operator()(const std::string* path) const {
  ::unlink(path->c_str());
  delete path;
}

Result<Listener> Listener::open(asio::io_context& context, const ServerOptions& options) {
  if (!options.unix_socket.empty()) return open_path(context, options.unix_socket);
  return open_port(context, options);
}

Result<Listener> Listener::open_port(asio::io_context& context, const ServerOptions& options) {
  error_code ec;
  const auto address = asio::ip::make_address(options.host, ec);
  if (ec) {
    return fail(ErrorKind::kInvalidArgument, "\"{}\" is no numeric address to listen on",
                options.host);
  }
  const tcp::endpoint endpoint(address, options.port);
  TcpAcceptor acceptor(context);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(TcpAcceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  begin_listening(acceptor, ec);
  if (ec) {
    return fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", options.host, options.port,
                ec.message());
  }
  Listener listener;
  listener.port_ = acceptor.local_endpoint().port();
  const std::string host = address.is_v6() ? fmt::format("[{}]", options.host) : options.host;
  listener.address_ = fmt::format("http://{}:{}", host, listener.port_);
  listener.acceptor_ = std::move(acceptor);
  return listener;
}

Result<Listener> Listener::open_path(asio::io_context& context, const std::string& path) {
  if (path.size() > kMaxPathBytes) {
    return fail(ErrorKind::kInvalidArgument,
                "cannot listen on {}: the path has {} bytes, of {} that it may", path, path.size(),
                kMaxPathBytes);
  }
  PENSTOCK_TRY(remove_stale(context, path));
  PathAcceptor acceptor(context);
  error_code ec;
  acceptor.open(stream_protocol(), ec);
  if (!ec) acceptor.bind(stream_protocol::endpoint(path), ec);
  Listener listener;
  if (!ec) listener.path_.reset(new std::string(path));
  // Nobody can connect before listen(), so that the mode is in time.
  if (!ec && ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) {
    ec.assign(errno, boost::system::system_category());
  }
  begin_listening(acceptor, ec);
  if (ec) return fail(ErrorKind::kIo, "cannot listen on {}: {}", path, ec.message());
  listener.address_ = fmt::format("unix:{}", path);
  listener.acceptor_ = std::move(acceptor);
  return listener;
}

asio::awaitable<std::pair<error_code, HttpStream::Socket>> Listener::accept(
    asio::io_context& context) {
  if (auto* port = std::get_if<TcpAcceptor>(&acceptor_)) {
    auto [ec, socket] = co_await port->async_accept(context, kAwait);
    error_code ignored;
    if (!ec) socket.set_option(tcp::no_delay(true), ignored);
    co_return std::pair(ec, HttpStream::Socket(std::move(socket)));
  }
  auto [ec, socket] = co_await std::get<PathAcceptor>(acceptor_).async_accept(context, kAwait);
  co_return std::pair(ec, HttpStream::Socket(std::move(socket)));
}

}  // namespace penstock
