#include "cli/client/blocking_client.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <utility>

#include "cli/client/fake_server_test.h"

namespace penstock {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Cause = CallFailure::Cause;

BlockingClient client_of(const std::string& url, std::string api_key = "") {
  return BlockingClient({.url = parse_server_url(url).value(),
                         .api_key = std::move(api_key),
                         .connect_timeout = std::chrono::seconds(5),
                         .silence_timeout = std::chrono::milliseconds(300)});
}

CallFailure failure_of(const FakeServer& server, BodySink sink = {}) {
  const auto reply = client_of(server.url()).call({.path = "/x"}, std::move(sink));
  EXPECT_FALSE(reply);
  return reply ? CallFailure() : reply.error();
}

// Where braces alone could also mean another FakeServer.
using Script = std::vector<ScriptedReply>;

bool ignore(std::string_view) { return true; }

TEST(BlockingClient, OneConnectionServesManyCalls) {
  FakeServer server({{.pieces = {http_reply("200 OK", "one")}},
                     {.pieces = {http_reply("404 Not Found", R"({"error":{"message":"no"}})")}},
                     {.pieces = {http_reply("200 OK", "three")}}});
  BlockingClient client = client_of(server.url(), "secret");
  EXPECT_EQ(client.call({.path = "/a"}).value().body, "one");
  const CallFailure refused = client.call({.path = "/b"}).error();
  EXPECT_EQ(refused.cause, Cause::kRefused);
  EXPECT_EQ(refused.label(), "HTTP 404");
  EXPECT_EQ(refused.message, server.url() + " answered GET /b with 404: no");
  EXPECT_EQ(client.call({.method = "POST", .path = "/c", .body = "{}"}).value().body, "three");
  EXPECT_EQ(server.n_connections(), 1);
  EXPECT_THAT(server.requests()[0], StartsWith("GET /a HTTP/1.1\r\n"));
  EXPECT_THAT(server.requests()[0], HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(server.requests()[2], HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(server.requests()[2], EndsWith("\r\n\r\n{}"));
}

TEST(BlockingClient, AConnectionTheServerHasClosedIsOpenedAgain) {
  FakeServer server({{.pieces = {http_reply("200 OK", "one")}, .close = true},
                     {.pieces = {http_reply("200 OK", "two")}}});
  BlockingClient client = client_of(server.url());
  EXPECT_EQ(client.call({.path = "/"}).value().body, "one");
  EXPECT_EQ(client.call({.path = "/"}).value().body, "two");
  EXPECT_EQ(server.n_connections(), 2);
}

TEST(BlockingClient, ChunksOfEveryCutAreOneBody) {
  const std::string whole =
      std::string(kEventsHeader) + http_chunk("data: a\n") + http_chunk("\n") + "0\r\n\r\n";
  std::vector<ScriptedReply> replies;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    replies.push_back({.pieces = {whole.substr(0, cut), whole.substr(cut)}});
  }
  FakeServer server(std::move(replies));
  BlockingClient client = client_of(server.url());
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    std::string body;
    const auto reply = client.call({.path = "/"}, [&](std::string_view piece) {
      body += piece;
      return true;
    });
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(body, "data: a\n\n") << cut;
  }
  EXPECT_EQ(server.n_connections(), 1);
}

TEST(BlockingClient, ABodyWithoutLengthEndsWithTheConnection) {
  FakeServer server({{.pieces = {"HTTP/1.0 200 OK\r\n\r\nall ", "of it"}, .close = true}});
  EXPECT_EQ(client_of(server.url()).call({.path = "/"}).value().body, "all of it");
}

TEST(BlockingClient, PiecesAreToldWhileTheStreamIsOpen) {
  FakeServer server({{.pieces = {std::string(kEventsHeader), http_chunk("first")}, .hold = true}});
  std::string body;
  BlockingClient client = client_of(server.url());
  const auto reply = client.call({.path = "/"}, [&](std::string_view piece) {
    body += piece;
    return body.size() < 5;  // has enough: otherwise the silence would be an error
  });
  EXPECT_TRUE(reply);
  EXPECT_EQ(body, "first");
}

TEST(BlockingClient, AStreamCutOffInTheMiddle) {
  FakeServer server({{.pieces = {std::string(kEventsHeader), http_chunk("a")}, .close = true}});
  const CallFailure failure = failure_of(server, ignore);
  EXPECT_EQ(failure.cause, Cause::kCut);
  EXPECT_THAT(failure.message, HasSubstr("closed the connection before its answer was whole"));
}

TEST(BlockingClient, AFreshConnectionIsNotTriedTwice) {
  FakeServer server(Script{{.close = true}, {.pieces = {http_reply("200 OK", "")}}});
  EXPECT_EQ(failure_of(server).cause, Cause::kCut);
  EXPECT_EQ(server.n_connections(), 1);
}

TEST(BlockingClient, SilenceTimesOut) {
  FakeServer before_header(Script{{.hold = true}});
  EXPECT_THAT(failure_of(before_header).message, HasSubstr("no byte came for 300 ms"));
  FakeServer in_body({{.pieces = {std::string(kEventsHeader)}, .hold = true}});
  EXPECT_EQ(failure_of(in_body, ignore).cause, Cause::kTimeout);
}

TEST(BlockingClient, WhatIsNotHttpSaysSo) {
  FakeServer server({{.pieces = {"SSH-2.0-OpenSSH_9.2\r\n\r\n"}, .close = true}});
  const CallFailure failure = failure_of(server);
  EXPECT_EQ(failure.cause, Cause::kNotHttp);
  EXPECT_THAT(failure.message, HasSubstr("does not speak HTTP"));
}

TEST(BlockingClient, ARefusalWithoutAnErrorObjectHasItsStatus) {
  FakeServer server({{.pieces = {http_reply("502 Bad Gateway", "<html>")}}});
  EXPECT_THAT(failure_of(server, ignore).message, EndsWith("with 502: Bad Gateway"));
}

TEST(BlockingClient, NobodyListens) {
  std::string url;
  {
    FakeServer server(Script{});
    url = server.url();
  }
  const CallFailure failure = client_of(url).call({.path = "/"}).error();
  EXPECT_EQ(failure.cause, Cause::kConnect);
  EXPECT_EQ(failure.message, "cannot connect to " + url + ": connection refused");
}

TEST(BlockingClient, StopsWhenAsked) {
  FakeServer server(Script{{.hold = true}});
  const auto reply = client_of(server.url()).call({.path = "/"}, {}, [] { return true; });
  EXPECT_EQ(reply.error().cause, Cause::kStopped);
}

TEST(BlockingClient, UnixSocket) {
  const std::string path = testing::TempDir() + "penstock_client_test.sock";
  std::filesystem::remove(path);
  {
    FakeServer server({{.pieces = {http_reply("200 OK", "here")}}}, path);
    EXPECT_EQ(client_of("unix://" + path).call({.path = "/"}).value().body, "here");
    EXPECT_THAT(server.requests()[0], HasSubstr("\r\nHost: localhost\r\n"));
  }
  std::filesystem::remove(path);
  EXPECT_EQ(client_of("unix://" + path).call({.path = "/"}).error().message,
            "cannot connect to unix://" + path + ": no such file or directory");
}

}  // namespace
}  // namespace penstock
