#include "cli/client/server_url.h"

#include <gmock/gmock.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(ServerUrl, HostPortAndPrefix) {
  const auto plain = parse_server_url("http://127.0.0.1:8080").value();
  EXPECT_EQ(plain.authority(), "127.0.0.1:8080");
  EXPECT_EQ(plain.prefix, "");
  EXPECT_FALSE(plain.is_unix());
  EXPECT_EQ(parse_server_url("http://example.org").value().authority(), "example.org:80");
  const auto ipv6 = parse_server_url("http://[::1]:81/proxy/").value();
  EXPECT_EQ(ipv6.host, "::1");
  EXPECT_EQ(ipv6.authority(), "[::1]:81");
  EXPECT_EQ(ipv6.prefix, "/proxy");
}

TEST(ServerUrl, TheBaseUrlOfOpenAiClientsIsTheSame) {
  for (const char* url : {"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"}) {
    EXPECT_EQ(parse_server_url(url).value().prefix, "") << url;
  }
  EXPECT_EQ(parse_server_url("http://h/a/v1").value().prefix, "/a");
  EXPECT_EQ(parse_server_url("http://h/av1").value().prefix, "/av1");
}

TEST(ServerUrl, UnixSocket) {
  const auto url = parse_server_url("unix:///run/penstock.sock").value();
  EXPECT_TRUE(url.is_unix());
  EXPECT_EQ(url.socket, "/run/penstock.sock");
  EXPECT_EQ(url.authority(), "localhost");
}

TEST(ServerUrl, WhatIsNoneIsRefusedWithTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "http://"},
      {"127.0.0.1:8080", "http://"},
      {"https://h", "http://"},
      {"http://", "no host"},
      {"http://:80", "no host"},
      {"http://h:", "port"},
      {"http://h:0", "port"},
      {"http://h:65536", "port"},
      {"http://h:8o", "port"},
      {"http://[::1", "]"},
      {"http://[::1]8", "after its host"},
      {"http://user:pass@h", "nothing else"},
      {"http://h/?a", "nothing else"},
      {"http://h/a\r\nX: y", "control"},
      {"unix://run/x", "absolute"},
  };
  for (const auto& [url, words] : cases) {
    const auto parsed = parse_server_url(url);
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr(words)) << url;
  }
}

}  // namespace
}  // namespace penstock
