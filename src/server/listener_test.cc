#include "server/listener.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/test_server.h"

namespace penstock {
namespace {

// A path of this test alone, in a folder that goes away with it.
class SocketPath {
 public:
  SocketPath() {
    char name[] = "/tmp/penstock-listener-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  SocketPath(const SocketPath&) = delete;
  SocketPath& operator=(const SocketPath&) = delete;
  ~SocketPath() { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/socket"; }
  bool exists() const { return std::filesystem::exists(path()); }

 private:
  std::string folder_;
};

int connect_to(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
}

Result<std::unique_ptr<Server>> listen_on(const std::string& path) {
  return Server::start({.unix_socket = path}, Log::none());
}

TEST(Listener, APathAnswersThisUserAloneAndGoesWithTheServer) {
  const SocketPath socket;
  {
    const RunningServer server(saying(bytes_of("hello")), {.unix_socket = socket.path()});
    EXPECT_EQ(server.server->address(), "unix:" + socket.path());
    EXPECT_EQ(server.port(), 0);
    struct stat status = {};
    ASSERT_EQ(::stat(socket.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    TestClient client(TestClient::FromFd{connect_to(socket.path())});
    client.request("POST", kChat, chat_body(), "Host: whatever\r\n");
    EXPECT_EQ(client.response().json()["choices"][0]["message"]["content"], "hello");
    client.request("POST", kChat, chat_body(R"("stream":true)"));
    EXPECT_EQ(read_stream(client.response()).text, "hello");
  }
  EXPECT_FALSE(socket.exists());
}

TEST(Listener, ASocketThatAServerLeftBehindIsTaken) {
  const SocketPath socket;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket.path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);  // the path stays, and nobody listens
  ASSERT_TRUE(socket.exists());
  const auto server = listen_on(socket.path());
  ASSERT_TRUE(server) << server.error().text();
  const int client = connect_to(socket.path());
  EXPECT_GE(client, 0);
  ::close(client);
}

TEST(Listener, APathInUseIsLeftAlone) {
  const SocketPath socket;
  const auto first = listen_on(socket.path());
  ASSERT_TRUE(first);
  const auto second = listen_on(socket.path());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(socket.path()), std::string::npos);
  const int client = connect_to(socket.path());
  EXPECT_GE(client, 0) << "the first server lost its path";
  ::close(client);
}

TEST(Listener, WhatIsNoSocketIsLeftAlone) {
  const SocketPath socket;
  std::ofstream(socket.path()) << "precious";
  const auto server = listen_on(socket.path());
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("no socket"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(socket.path()), 8U);
  EXPECT_FALSE(listen_on("/no/such/folder/socket"));
  EXPECT_FALSE(listen_on("/tmp/" + std::string(200, 'x')));
}

}  // namespace
}  // namespace penstock
