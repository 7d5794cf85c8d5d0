// Keys, hosts and origins, over real sockets.
#include "server/access.h"

#include <string>

#include "server/test_server.h"

namespace penstock {
namespace {

constexpr std::string_view kLocal = "Host: localhost\r\n";

ServerOptions with_keys() { return {.access = {.api_keys = {"sk-one", "sk-two"}}}; }

std::string bearer(std::string_view key) {
  return fmt::format("{}Authorization: Bearer {}\r\n", kLocal, key);
}

std::string of_origin(std::string_view origin) {
  return fmt::format("{}Origin: {}\r\n", kLocal, origin);
}

TEST(Access, AKeyIsFoundWholeAndOnlyWhole) {
  const std::vector<std::string> keys = {"alpha", "beta", "alphabet"};
  EXPECT_EQ(find_key(keys, "alpha"), 0U);
  EXPECT_EQ(find_key(keys, "beta"), 1U);
  EXPECT_EQ(find_key(keys, "alphabet"), 2U);
  // Neither a part of one, one repeated, nor nothing.
  for (const std::string_view wrong :
       {"", "a", "alph", "alphaalpha", "betabeta", "Alpha", "alpha\n", "gamma"}) {
    EXPECT_FALSE(find_key(keys, wrong)) << wrong;
  }
}

TEST(Access, EveryRouteButHealthWantsAKey) {
  const RunningServer server(saying(bytes_of("x")), with_keys());
  EXPECT_EQ(server.get("/health").status, 200);
  for (const auto& [method, path] :
       {std::pair{"GET", "/v1/models"}, std::pair{"GET", "/metrics"},
        std::pair{"GET", "/v1/status"}, std::pair{"GET", "/v1/requests"},
        std::pair{"POST", "/v1/chat/completions"}, std::pair{"POST", "/v1/completions"},
        std::pair{"POST", "/tokenize"}, std::pair{"POST", "/detokenize"},
        std::pair{"POST", "/v1/stop"}, std::pair{"DELETE", "/v1/requests/x"},
        std::pair{"GET", "/no/such/route"}, std::pair{"GET", "/health/"}}) {
    const TestResponse none = ask(server.port(), method, path, "{}");
    expect_error(none, 401, "API key");
    EXPECT_EQ(none.json()["error"]["code"], "invalid_api_key");
    EXPECT_EQ(none.json()["error"]["type"], "invalid_request_error");
    EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
    expect_error(ask(server.port(), method, path, "{}", bearer("sk-on")), 401, "no API key of");
    const TestResponse with_key = ask(server.port(), method, path, "{}", bearer("sk-two"));
    EXPECT_NE(with_key.status, 401) << path;
    EXPECT_NE(with_key.status, 0) << path;
  }
  EXPECT_EQ(ask(server.port(), "GET", "/v1/models", "",
                fmt::format("{}authorization: bearer sk-one\r\n", kLocal))
                .status,
            200)
      << "schemes and header names have no case";
}

TEST(Access, ABodyWithoutAKeyIsNotWaitedFor) {
  const RunningServer server(saying(bytes_of("x")), with_keys());
  TestClient client(server.port());
  client.send(fmt::format("POST {} HTTP/1.1\r\n{}Content-Length: 1000000\r\n\r\n", kChat, kLocal));
  EXPECT_EQ(client.response().status, 401);
  EXPECT_TRUE(client.at_end());
}

// DNS rebinding: a page of evil.example, whose owner makes the name mean 127.0.0.1.
TEST(Access, OnLoopbackOnlyOurOwnNamesAreAnswered) {
  const RunningServer server(saying(bytes_of("x")), {.access = {.allowed_hosts = {"box.example"}}});
  const auto status = [&](std::string_view host) {
    return ask(server.port(), "GET", "/v1/models", "", fmt::format("Host: {}\r\n", host)).status;
  };
  for (const std::string_view host : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:80",
                                      "[::1]:8080", "[::1]", "box.example:1"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const std::string_view host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                                      "127.0.0.1.evil.example", "[", "[::1", "box.example.org"}) {
    EXPECT_EQ(status(host), 403) << host;
  }
  EXPECT_EQ(ask(server.port(), "GET", "/v1/models", "", "").status, 200) << "no browser's";
}

TEST(Access, ForeignWebPagesCannotChangeAnything) {
  const RunningServer server;
  for (const std::string_view path : {"/v1/stop", "/v1/chat/completions"}) {
    const TestResponse refused =
        ask(server.port(), "POST", path, chat_body(), of_origin("https://evil.example"));
    expect_error(refused, 403, "evil.example");
    EXPECT_FALSE(refused.headers.contains("access-control-allow-origin"));
  }
  EXPECT_EQ(ask(server.port(), "DELETE", "/v1/requests/x", "", of_origin("null")).status, 403);
  EXPECT_EQ(ask(server.port(), "POST", kChat, chat_body(), of_origin("http://localhost")).status,
            200)
      << "our own page";
  // What a page may send without asking first has another type than JSON.
  expect_error(ask(server.port(), "POST", "/v1/stop", "{}",
                   fmt::format("{}Content-Type: text/plain\r\n", kLocal)),
               415, "application/json");
  expect_error(ask(server.port(), "POST", "/v1/stop", "{}"), 415, "application/json");
}

TEST(Access, WithoutCorsNoPageMayReadAnything) {
  const RunningServer server;
  const TestResponse get =
      ask(server.port(), "GET", "/v1/models", "", of_origin("https://app.example"));
  EXPECT_EQ(get.status, 200);
  EXPECT_FALSE(get.headers.contains("access-control-allow-origin"));
  EXPECT_EQ(ask(server.port(), "OPTIONS", kChat, "", of_origin("https://app.example")).status, 405);
}

TEST(Access, OnePageMayBeLetIn) {
  ServerOptions options = with_keys();
  options.access.cors_origin = "https://app.example";
  const RunningServer server(saying(bytes_of("x")), options);
  const std::string origin = of_origin("https://app.example");
  // Browsers ask first, and send no key with it.
  const TestResponse asked = ask(server.port(), "OPTIONS", kChat, "", origin);
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_NE(asked.headers.at("access-control-allow-headers").find("Authorization"),
            std::string::npos);
  EXPECT_NE(asked.headers.at("access-control-allow-methods").find("POST"), std::string::npos);

  const TestResponse no_key = ask(server.port(), "POST", kChat, chat_body(), origin);
  EXPECT_EQ(no_key.status, 401);
  EXPECT_EQ(no_key.headers.at("access-control-allow-origin"), "https://app.example");
  for (const std::string_view stream : {"false", "true"}) {
    const TestResponse answer =
        ask(server.port(), "POST", kChat, chat_body(fmt::format(R"("stream":{})", stream)),
            origin + "Authorization: Bearer sk-one\r\n");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://app.example");
    EXPECT_EQ(answer.headers.at("vary"), "Origin");
  }
  const TestResponse other =
      ask(server.port(), "OPTIONS", kChat, "", of_origin("https://app.example.evil.example"));
  EXPECT_FALSE(other.headers.contains("access-control-allow-origin"));
}

}  // namespace
}  // namespace penstock
