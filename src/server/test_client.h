// For tests: a blocking HTTP client on a plain socket, which can also misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace penstock {

struct TestResponse {
  int status = 0;  // 0: the connection ended before an answer
  std::map<std::string, std::string> headers = {};
  std::string body = {};  // without chunk framing

  Json json() const { return parse_json(body).value_or(Json()); }
  // The data of server-sent events.
  std::vector<std::string> events() const {
    std::vector<std::string> all;
    for (size_t at = 0; at < body.size();) {
      const size_t end = std::min(body.find("\n\n", at), body.size());
      std::string_view line = std::string_view(body).substr(at, end - at);
      if (line.starts_with("data: ")) all.emplace_back(line.substr(6));
      at = end + 2;
    }
    return all;
  }
};

class TestClient {
 public:
  // A receive buffer so small that a server notices soon when nobody reads.
  explicit TestClient(uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  struct FromFd {
    int fd;
  };
  // Takes a connected socket.
  explicit TestClient(FromFd connected) : fd_(connected.fd) {}
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }

  // False when the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // `headers`: whole lines, each with its "\r\n".
  void request(std::string_view method, std::string_view path, std::string_view body = {},
               std::string_view headers = "Host: localhost\r\n") {
    send(fmt::format("{} {} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", method, path, headers,
                     body.size(), body));
  }

  // Waits for `text` to have come; false when the stream ends without it.
  bool wait_for(std::string_view text) {
    while (received_.find(text) == std::string::npos) {
      if (!receive()) return false;
    }
    return true;
  }

  // What has come and was not taken yet.
  const std::string& received() const { return received_; }

  // The next response on the connection; of one without length or chunks all until the end.
  TestResponse response(bool head = false) {
    TestResponse response;
    if (!wait_for("\r\n\r\n")) return response;
    parse_header(response);
    const auto length = response.headers.find("content-length");
    if (head || response.status == 204) return response;
    if (length != response.headers.end()) {
      response.body = take(std::strtoul(length->second.c_str(), nullptr, 10));
    } else if (response.headers.contains("transfer-encoding")) {
      read_chunks(response);
    } else {
      while (receive()) {
      }
      response.body = std::exchange(received_, {});
    }
    return response;
  }

  // True when the server closes and sends nothing more.
  bool at_end() { return received_.empty() && !receive(); }

 private:
  bool receive() {
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ADD_FAILURE() << "the server is silent";
    if (n <= 0) return false;
    received_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  std::string take(size_t n) {
    while (received_.size() < n && receive()) {
    }
    std::string taken = received_.substr(0, n);
    received_.erase(0, n);
    return taken;
  }

  std::string take_line() {
    if (!wait_for("\r\n")) return {};
    const size_t end = received_.find("\r\n");
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 2);
    return line;
  }

  void parse_header(TestResponse& response) {
    const std::string status_line = take_line();
    if (status_line.size() > 9) response.status = std::atoi(status_line.c_str() + 9);
    for (std::string line = take_line(); !line.empty(); line = take_line()) {
      const size_t colon = line.find(':');
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      response.headers[name] = line.substr(colon + 2);
    }
  }

  void read_chunks(TestResponse& response) {
    for (;;) {
      const size_t n = std::strtoul(take_line().c_str(), nullptr, 16);
      response.body += take(n);
      take(2);
      if (n == 0) return;
    }
  }

  int fd_;
  std::string received_;
};

inline TestResponse ask(uint16_t port, std::string_view method, std::string_view path,
                        std::string_view body = {},
                        std::string_view headers = "Host: localhost\r\n") {
  TestClient client(port);
  client.request(method, path, body, headers);
  return client.response(method == "HEAD");
}

}  // namespace penstock
