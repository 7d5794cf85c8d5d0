// Where a server listens: a TCP port, or a path that only this user may connect to.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "base/result.h"
#include "server/http_stream.h"
#include "server/server.h"

namespace penstock {

// Move-only. A path is removed again by the destructor.
class Listener {
 public:
  // A path that a server has left behind is taken; one that somebody listens on is not, nor a file
  // of another kind.
  static Result<Listener> open(boost::asio::io_context& context, const ServerOptions& options);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = default;

  uint16_t port() const { return port_; }  // 0: a path
  const std::string& address() const { return address_; }

  // The next connection's socket, of `context`.
  boost::asio::awaitable<std::pair<boost::system::error_code, HttpStream::Socket>> accept(
      boost::asio::io_context& context);

 private:
  using TcpAcceptor = boost::asio::ip::tcp::acceptor;
  using PathAcceptor = boost::asio::local::stream_protocol::acceptor;
  // Removes a path when it goes.
  struct RemovePath {
    void operator()(const std::string* path) const;
  };

  Listener() = default;
  static Result<Listener> open_port(boost::asio::io_context& context, const ServerOptions& options);
  static Result<Listener> open_path(boost::asio::io_context& context, const std::string& path);

  std::variant<std::monostate, TcpAcceptor, PathAcceptor> acceptor_;
  uint16_t port_ = 0;
  std::string address_;
  std::unique_ptr<const std::string, RemovePath> path_;
};

}  // namespace penstock
