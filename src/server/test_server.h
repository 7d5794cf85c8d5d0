// For tests: a server over real sockets, on a fake model.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/fake_chat.h"
#include "server/server.h"
#include "server/test_client.h"

namespace penstock {

inline constexpr std::string_view kChat = "/v1/chat/completions";

inline std::string chat_body(std::string_view fields = {}, std::string_view content = "hi") {
  return fmt::format(R"({{"model":"fake","temperature":0,"messages":[)"
                     R"({{"role":"user","content":"{}"}}]{}{}}})",
                     content, fields.empty() ? "" : ",", fields);
}

// Whether `holds` is true before long: what a server keeps of an answer it sent is put away after
// its last byte, while the client goes on already.
template <class Condition>
bool eventually(Condition holds) {
  for (int i = 0; i < 60'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

struct RunningServer {
  explicit RunningServer(FakeModelOptions model = saying(bytes_of("hello, w\xC3\xB6rld")),
                         ServerOptions options = {}, EngineOptions engine_options = {},
                         std::string_view chat_template = kChatMl)
      : engine(Engine::start(std::make_unique<FakeModel>(std::move(model)), {kImEnd},
                             engine_options, Log::none())),
        server(Server::start(std::move(options), Log::none()).value()) {
    server->set_ready({.name = "fake",
                       .engine = engine,
                       .chat = std::make_shared<const ChatFormatter>(fake_text(chat_template))});
  }

  uint16_t port() const { return server->port(); }
  TestResponse get(std::string_view path) const { return ask(port(), "GET", path); }
  TestResponse post(std::string_view path, std::string_view body) const {
    return ask(port(), "POST", path, body);
  }
  TestResponse chat(const std::string& body) const { return ask(port(), "POST", kChat, body); }

  // Stats are as of the last step, and clients are not waited for.
  bool becomes_idle() const {
    return eventually([&] {
      const EngineStats stats = engine->stats();
      return stats.n_running == 0 && stats.n_waiting == 0 &&
             stats.n_free_pages + stats.n_cached_pages == stats.n_pages;
    });
  }
  // A number of /metrics by its name and labels; absent: -1.
  double metric(std::string_view name) const {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find(fmt::format("\n{} ", name));
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + name.size() + 2, nullptr);
  }
  // Requests that ended so, at the chat route.
  double n_answers(std::string_view outcome) const {
    return metric(
        fmt::format(R"(penstock_requests_total{{outcome="{}",route="{}"}})", outcome, kChat));
  }
  size_t n_listed() const { return get("/v1/requests").json()["data"].size(); }

  std::shared_ptr<Engine> engine;
  std::unique_ptr<Server> server;
};

// Talks without end: alone, it would run out of pages only after minutes.
inline FakeModelOptions talking_for_ever() {
  FakeModelOptions model = saying(bytes_of("on and "), /*for_ever=*/true);
  model.n_pages = 4096;
  return model;
}

// Text and reason of a streamed answer.
struct Streamed {
  std::string text;
  std::string finish_reason;
  Json usage;
  size_t n_texts = 0;
};

inline Streamed read_stream(const TestResponse& response) {
  Streamed streamed;
  EXPECT_EQ(response.status, 200);
  const std::vector<std::string> events = response.events();
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] == "[DONE]") {
      EXPECT_EQ(i + 1, events.size());
      return streamed;
    }
    const Json chunk = parse_json(events[i]).value();
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (chunk["choices"].empty()) {
      streamed.usage = chunk["usage"];
      continue;
    }
    const Json& choice = chunk["choices"][0];
    if (choice["delta"].contains("content")) {
      streamed.text += choice["delta"]["content"].get<std::string>();
      ++streamed.n_texts;
    }
    if (!choice["finish_reason"].is_null()) streamed.finish_reason = choice["finish_reason"];
  }
  ADD_FAILURE() << "the stream has no [DONE]";
  return streamed;
}

inline void expect_error(const TestResponse& response, int status, std::string_view word) {
  EXPECT_EQ(response.status, status) << response.body;
  const Json body = response.json();
  ASSERT_TRUE(body.contains("error")) << response.body;
  EXPECT_NE(body["error"]["message"].get<std::string>().find(word), std::string::npos)
      << response.body;
}

}  // namespace penstock
