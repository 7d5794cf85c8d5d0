// For tests: a server that answers as a script says, byte for byte.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace penstock {

// What one connection answers to its next request: pieces sent one by one, each a write of its own.
struct ScriptedReply {
  std::vector<std::string> pieces = {};
  bool close = false;  // after the last piece
  bool hold = false;   // after the last piece: say nothing more until the client has gone
};

inline std::string http_reply(std::string_view status, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
      body.size(), body);
}

inline constexpr std::string_view kEventsHeader =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

inline std::string http_chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

// Takes one connection after another, on a thread of its own; reads a request whole before each
// reply. After the last reply it listens no more.
class FakeServer {
 public:
  explicit FakeServer(std::vector<ScriptedReply> replies, const std::string& unix_path = "")
      : replies_(std::move(replies)) {
    if (unix_path.empty()) {
      listen_tcp();
    } else {
      listen_unix(unix_path);
    }
    thread_ = std::thread([this] { serve(); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);  // ends an accept() that waits
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  // Once the client has had its last reply.
  const std::vector<std::string>& requests() const { return requests_; }
  int n_connections() const { return n_connections_; }

 private:
  void listen_tcp() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  void listen_unix(const std::string& path) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
  }

  void serve() {
    size_t next = 0;
    while (next < replies_.size()) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      ++n_connections_;
      while (next < replies_.size() && read_request(fd)) {
        const ScriptedReply& reply = replies_[next++];
        for (const std::string& piece : reply.pieces) {
          ::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL);
        }
        if (reply.hold) wait_for_end(fd);
        if (reply.close || reply.hold) break;
      }
      ::close(fd);
    }
  }

  static void wait_for_end(int fd) {
    char byte = 0;
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
  }

  bool read_request(int fd) {
    std::string request;
    for (;;) {
      const size_t header = request.find("\r\n\r\n");
      if (header != std::string::npos && request.size() >= header + 4 + body_size(request)) break;
      char bytes[4096];
      const ssize_t n = ::recv(fd, bytes, sizeof(bytes), 0);
      if (n <= 0) return false;
      request.append(bytes, static_cast<size_t>(n));
    }
    requests_.push_back(std::move(request));
    return true;
  }

  static size_t body_size(const std::string& request) {
    const size_t at = request.find("Content-Length: ");
    return at == std::string::npos ? 0 : std::strtoul(request.c_str() + at + 16, nullptr, 10);
  }

  std::vector<ScriptedReply> replies_;
  std::vector<std::string> requests_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> n_connections_ = 0;
  std::thread thread_;
};

}  // namespace penstock
