// The server over real sockets, on a fake model.
#include "server/server.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Server, AnswersWhole) {
  const RunningServer server;
  const TestResponse response = server.chat(chat_body());
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  const Json body = response.json();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_GT(body["created"].get<int64_t>(), 1'700'000'000);
  EXPECT_TRUE(body["system_fingerprint"].is_string());
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "hello, w\xC3\xB6rld");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  // "<|im_start|>" "user\nhi" "<|im_end|>" "\n" "<|im_start|>" "assistant\n"; 13 bytes and the end.
  EXPECT_EQ(body["usage"], Json::parse(R"({"prompt_tokens":21,"completion_tokens":14,
                                           "total_tokens":35,
                                           "prompt_tokens_details":{"cached_tokens":0}})"));
}

TEST(Server, StreamsTheSameCharacterByCharacter) {
  const RunningServer server;
  const TestResponse response = server.chat(chat_body(R"("stream":true)"));
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  const Streamed streamed = read_stream(response);
  EXPECT_EQ(streamed.text, "hello, w\xC3\xB6rld");
  EXPECT_EQ(streamed.n_texts, 13U) << "the role's empty text, then one for each character";
  EXPECT_EQ(streamed.finish_reason, "stop");
  EXPECT_TRUE(streamed.usage.is_null());

  const Streamed with_usage = read_stream(
      server.chat(chat_body(R"("stream":true,"stream_options":{"include_usage":true})")));
  EXPECT_EQ(with_usage.usage["completion_tokens"], 14);
  EXPECT_EQ(with_usage.usage["prompt_tokens"], 21);
}

TEST(Server, EachPieceIsSentAsSoonAsItIsThere) {
  std::promise<void> first_was_read;
  auto gate = first_was_read.get_future().share();
  FakeModelOptions model = saying(bytes_of("ab"));
  model.on_step = [gate, step = 0](auto) mutable -> Result<void> {
    if (step++ == 1) gate.wait();
    return {};
  };
  const RunningServer server(std::move(model));
  TestClient client(server.port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  EXPECT_TRUE(client.wait_for(R"("content":"a")"));
  first_was_read.set_value();
  EXPECT_EQ(read_stream(client.response()).text, "ab");
}

TEST(Server, LengthAndStopAreReasons) {
  const RunningServer server;
  const Json cut = server.chat(chat_body(R"("max_tokens":5)")).json();
  EXPECT_EQ(cut["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 5);
  for (const std::string_view stream : {"false", "true"}) {
    const TestResponse response =
        server.chat(chat_body(fmt::format(R"("stop":["lo, "],"stream":{})", stream)));
    if (stream == "true") {
      EXPECT_EQ(read_stream(response).text, "hel");
      EXPECT_EQ(read_stream(response).finish_reason, "stop");
    } else {
      EXPECT_EQ(response.json()["choices"][0]["message"]["content"], "hel");
      EXPECT_EQ(response.json()["usage"]["completion_tokens"], 7);
    }
  }
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Server, TheSameSeedGivesTheSameAnswer) {
  FakeModelOptions model{.vocab_size = kFakeVocabSize};
  const RunningServer server(std::move(model));
  const auto answer = [&](std::string_view seed) {
    return server
        .chat(
            chat_body(fmt::format(R"("temperature":1,"max_tokens":30,"ignore_eos":true{})", seed)))
        .json()["choices"][0]["message"]["content"]
        .get<std::string>();
  };
  EXPECT_EQ(answer(R"(,"seed":5)"), answer(R"(,"seed":5)"));
  EXPECT_NE(answer(R"(,"seed":5)"), answer(R"(,"seed":6)"));
  EXPECT_NE(answer(""), answer("")) << "without a seed, each draws its own";
}

TEST(Server, ChoicesDifferAndTheFirstIsTheOnlyOneOfOne) {
  const RunningServer server({.vocab_size = kFakeVocabSize});
  constexpr std::string_view kFields =
      R"("temperature":1,"seed":3,"max_tokens":20,"ignore_eos":true,"n":{})";
  const Json one = server.chat(chat_body(fmt::format(fmt::runtime(kFields), 1))).json();
  const Json two = server.chat(chat_body(fmt::format(fmt::runtime(kFields), 2))).json();
  ASSERT_EQ(two["choices"].size(), 2U);
  EXPECT_EQ(two["choices"][0], one["choices"][0]);
  EXPECT_EQ(two["choices"][1]["index"], 1);
  EXPECT_NE(two["choices"][1]["message"], two["choices"][0]["message"]);
  EXPECT_EQ(two["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]) << "counted once";
  EXPECT_EQ(two["usage"]["completion_tokens"], 40);

  std::array<std::string, 2> texts;
  const TestResponse stream =
      server.chat(chat_body(fmt::format(fmt::runtime(kFields), 2) + R"(,"stream":true)"));
  for (const std::string& data : stream.events()) {
    if (data == "[DONE]") continue;
    const Json choice = parse_json(data).value()["choices"][0];
    texts.at(choice["index"]) += choice["delta"].value("content", "");
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], two["choices"][i]["message"]["content"].get<std::string>()) << i;
  }
}

TEST(Server, ManyClientsGetWhatEachWouldGetAlone) {
  const RunningServer server({.vocab_size = kFakeVocabSize, .n_pages = 16});
  const auto answer = [&](int i) {
    const std::string fields = fmt::format(R"("max_tokens":{},"ignore_eos":true,"stream":{})",
                                           60 + i, i % 2 == 0 ? "true" : "false");
    const TestResponse response =
        server.chat(chat_body(fields, std::string(20, static_cast<char>('a' + i))));
    return i % 2 == 0 ? read_stream(response).text
                      : response.json()["choices"][0]["message"]["content"].get<std::string>();
  };
  constexpr int kClients = 12;
  std::vector<std::string> alone;
  for (int i = 0; i < kClients; ++i) alone.push_back(answer(i));
  std::vector<std::future<std::string>> together;
  for (int i = 0; i < kClients; ++i) {
    together.push_back(std::async(std::launch::async, [&, i] { return answer(i); }));
  }
  for (int i = 0; i < kClients; ++i) {
    EXPECT_EQ(together[static_cast<size_t>(i)].get(), alone[static_cast<size_t>(i)]) << i;
  }
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Server, OneConnectionTakesManyRequests) {
  const RunningServer server;
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.request("POST", kChat, chat_body(i == 1 ? R"("stream":true)" : ""));
    EXPECT_EQ(client.response().status, 200) << i;
  }
  // Pipelined: sent before the first is answered.
  client.request("POST", kChat, chat_body());
  client.request("GET", "/health");
  client.request("GET", "/v1/models");
  EXPECT_EQ(client.response().json()["object"], "chat.completion");
  EXPECT_EQ(client.response().json()["status"], "ok");
  EXPECT_EQ(client.response().json()["object"], "list");
}

TEST(Server, Http10GetsItsAnswerUnchunked) {
  const RunningServer server;
  for (const bool stream : {false, true}) {
    TestClient client(server.port());
    const std::string body = chat_body(stream ? R"("stream":true)" : "");
    client.send(
        fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kChat, body.size(), body));
    const TestResponse response = client.response();
    EXPECT_FALSE(response.headers.contains("transfer-encoding"));
    if (stream) {
      EXPECT_EQ(read_stream(response).text, "hello, w\xC3\xB6rld");
    } else {
      EXPECT_EQ(response.status, 200);
    }
    EXPECT_TRUE(client.at_end());
  }
}

TEST(Server, HealthAndModelsBeforeAndAfterLoading) {
  const auto server = Server::start({}, Log::none()).value();
  server->set_progress({.stage = "reading weights", .done = 25, .total = 100});
  const TestResponse loading = ask(server->port(), "GET", "/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.json()["status"], "loading");
  EXPECT_EQ(loading.json()["stage"], "reading weights");
  EXPECT_EQ(loading.json()["progress"], 0.25);
  EXPECT_TRUE(loading.headers.contains("retry-after"));
  expect_error(ask(server->port(), "POST", kChat, chat_body()), 503, "25 %");
  expect_error(ask(server->port(), "GET", "/v1/models"), 503, "loading");

  const RunningServer ready({.context_length = 1000, .n_pages = 4});
  EXPECT_EQ(ask(ready.port(), "GET", "/health").status, 200);
  const Json models = ask(ready.port(), "GET", "/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "fake");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256) << "BC-03: what the KV pages hold";
  EXPECT_EQ(ask(ready.port(), "GET", "/v1/models/fake").json()["id"], "fake");
  expect_error(ask(ready.port(), "GET", "/v1/models/other"), 404, "other");
}

TEST(Server, RoutesThatAreNone) {
  const RunningServer server;
  expect_error(ask(server.port(), "GET", "/v1/nothing"), 404, "/v1/nothing");
  expect_error(ask(server.port(), "POST", "/"), 404, "/");
  const TestResponse get = ask(server.port(), "GET", kChat);
  expect_error(get, 405, "GET");
  EXPECT_EQ(get.headers.at("allow"), "POST");
  EXPECT_EQ(ask(server.port(), "DELETE", "/health").status, 405);
  EXPECT_EQ(ask(server.port(), "HEAD", "/health").status, 405);
  EXPECT_EQ(ask(server.port(), "GET", "/health?x=1").status, 200);
}

TEST(Server, RefusedRequestsNameTheFieldAndTheServerLives) {
  const RunningServer server({.n_pages = 4});
  expect_error(server.chat("{nonsense"), 400, "JSON");
  expect_error(server.chat(std::string(100'000, '[')), 400, "nested");
  expect_error(server.chat(R"({"messages":[]})"), 400, "messages");
  expect_error(server.chat(chat_body(R"("temperature":"hot")")), 400, "temperature");
  expect_error(server.chat(chat_body(R"("tool_choice":"required")")), 400, "not supported yet");
  expect_error(server.chat(R"({"model":"gpt-9","messages":[{"role":"user","content":"x"}]})"), 404,
               "gpt-9");
  // BC-02: both numbers, at once.
  const TestResponse too_long = server.chat(chat_body("", std::string(400, 'x')));
  expect_error(too_long, 400, "256");
  expect_error(too_long, 400, std::to_string(400 + 19));
  EXPECT_EQ(too_long.json()["error"]["param"], "messages");
  expect_error(server.chat(chat_body(R"("stop":[""])")), 400, "stop");
  EXPECT_EQ(server.chat(chat_body(R"("max_tokens":3)")).status, 200);
}

// BC-41
TEST(Server, WhatATemplateRaisesIsA400WithItsWords) {
  const RunningServer server(saying(bytes_of("x")), {}, {},
                             "{{ raise_exception('roles must alternate') }}");
  expect_error(server.chat(chat_body()), 400, "roles must alternate");
  const RunningServer broken(saying(bytes_of("x")), {}, {}, "{{ 1 + messages }}");
  EXPECT_EQ(broken.chat(chat_body()).status, 400);
  const RunningServer greedy(saying(bytes_of("x")), {}, {}, "{{ 'x' * 999999999999 }}");
  EXPECT_EQ(greedy.chat(chat_body()).status, 400);
}

TEST(Server, LimitsOfHeaderAndBody) {
  const RunningServer server(saying(bytes_of("x")),
                             {.max_header_bytes = 2048, .max_body_bytes = 10'000});
  expect_error(server.chat(std::string(10'001, ' ')), 413, "9.8 KiB");
  {
    TestClient client(server.port());
    client.send("GET /health HTTP/1.1\r\nX-Long: " + std::string(5000, 'x') + "\r\n\r\n");
    expect_error(client.response(), 431, "2.0 KiB");
  }
  {
    TestClient client(server.port());  // chunks: longer than any length it gave
    client.send(fmt::format("POST {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", kChat));
    for (int i = 0; i < 20; ++i) client.send("400\r\n" + std::string(1024, ' ') + "\r\n");
    EXPECT_EQ(client.response().status, 413);
  }
  {
    TestClient client(server.port());
    client.send("this is not HTTP\r\n\r\n");
    EXPECT_EQ(client.response().status, 400);
    EXPECT_TRUE(client.at_end());
  }
  {
    TestClient client(server.port());  // curl asks before it sends much
    const std::string body = chat_body();
    client.send(
        fmt::format("POST {} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", kChat,
                    body.size()));
    EXPECT_EQ(client.response(/*head=*/true).status, 100);
    client.send(body);
    EXPECT_EQ(client.response().status, 200);
  }
}

TEST(Server, SlowAndSilentClientsAreClosed) {
  const RunningServer server(saying(bytes_of("x")), {.read_timeout = milliseconds(200),
                                                     .idle_timeout = milliseconds(200)});
  TestClient silent(server.port());
  TestClient slow(server.port());
  slow.send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(slow.at_end());
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
}

TEST(Server, ConnectionsAreBounded) {
  const RunningServer server(saying(bytes_of("x")), {.max_connections = 2});
  TestClient first(server.port());
  TestClient second(server.port());
  for (TestClient* client : {&first, &second}) {
    client->request("GET", "/health");
    EXPECT_EQ(client->response().status, 200);
  }
  TestClient third(server.port());
  EXPECT_TRUE(third.at_end());
  first.close();
  int status = 0;
  for (int i = 0; i < 1000 && status != 200; ++i) {
    status = ask(server.port(), "GET", "/health").status;
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(status, 200) << "a place that was given up was not given again";
}

// BC-58
TEST(Server, AClientThatLeavesEndsItsRequest) {
  const RunningServer server(talking_for_ever());
  for (int i = 0; i < 50; ++i) {
    TestClient client(server.port());
    const bool stream = i % 2 == 0;
    client.request("POST", kChat, chat_body(stream ? R"("stream":true)" : ""));
    if (stream) {
      EXPECT_TRUE(client.wait_for("content"));
    }
    client.close();
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.chat(chat_body(R"("max_tokens":6)")).json()["choices"][0]["message"]["content"],
            "on and");
}

TEST(Server, AClientThatDoesNotReadLosesItsAnswerAndHoldsNobodyUp) {
  const ServerOptions limits[] = {
      {.write_timeout = seconds(60), .max_unsent_tokens = 64},
      {.write_timeout = milliseconds(300), .max_unsent_tokens = 1'000'000},
  };
  for (const ServerOptions& options : limits) {
    const RunningServer server(talking_for_ever(), options);
    TestClient client(server.port(), /*receive_buffer=*/2048);
    client.request("POST", kChat, chat_body(R"("stream":true)"));
    EXPECT_TRUE(client.wait_for("content"));
    EXPECT_TRUE(server.becomes_idle());
    EXPECT_EQ(server.chat(chat_body(R"("max_tokens":6)")).status, 200);
  }
}

// BC-59
TEST(Server, AFailedStepIsAnErrorForItsClients) {
  FakeModelOptions model = saying(bytes_of("ab"));
  auto failing = std::make_shared<std::atomic<bool>>(true);
  model.on_step = [failing, step = 0](auto) mutable -> Result<void> {
    if (step++ % 2 == 1 && *failing) return fail(ErrorKind::kInternal, "planted");
    return {};
  };
  const RunningServer server(std::move(model));
  expect_error(server.chat(chat_body()), 500, "planted");
  const TestResponse stream = server.chat(chat_body(R"("stream":true)"));
  ASSERT_FALSE(stream.events().empty());
  const Json last = parse_json(stream.events().back()).value();
  EXPECT_EQ(last["error"]["message"], "planted") << stream.body;
  *failing = false;
  EXPECT_EQ(server.chat(chat_body()).status, 200);
}

TEST(Server, AFullQueueIsA429) {
  std::promise<void> open;
  FakeModelOptions model = saying(bytes_of("ab"));
  model.on_step = [gate = open.get_future().share()](auto) -> Result<void> {
    gate.wait();
    return {};
  };
  const RunningServer server(std::move(model), {},
                             {.max_waiting = 1, .scheduler = {.max_running = 1}});
  std::vector<std::unique_ptr<TestClient>> clients;
  do {  // those who are accepted have begun to stream
    ASSERT_LT(clients.size(), 4U) << "one runs, one waits";
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->request("POST", kChat, chat_body(R"("stream":true)"));
    ASSERT_TRUE(clients.back()->wait_for("\r\n\r\n"));
  } while (!clients.back()->received().starts_with("HTTP/1.1 429"));
  const TestResponse refused = clients.back()->response();
  expect_error(refused, 429, "waiting");
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  open.set_value();
}

TEST(Server, DrainingFinishesWhatRunsAndRefusesWhatComes) {
  std::promise<void> open;
  FakeModelOptions model = saying(bytes_of("hello"));
  model.on_step = [gate = open.get_future().share(), step = 0](auto) mutable -> Result<void> {
    if (step++ == 2) gate.wait();
    return {};
  };
  const RunningServer server(std::move(model));
  TestClient running(server.port());
  running.request("POST", kChat, chat_body(R"("stream":true)"));
  EXPECT_TRUE(running.wait_for(R"("content":"h")"));

  EXPECT_FALSE(server.server->drain(milliseconds(1))) << "one is still running";
  expect_error(server.chat(chat_body()), 503, "shutting down");
  EXPECT_EQ(ask(server.port(), "GET", "/health").json()["status"], "draining");
  open.set_value();
  EXPECT_TRUE(server.server->drain(seconds(20)));
  EXPECT_EQ(read_stream(running.response()).text, "hello");
  server.server->stop();
  server.server->stop();
}

TEST(Server, StoppingAbortsWhatRuns) {
  RunningServer server(talking_for_ever());
  TestClient client(server.port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  EXPECT_TRUE(client.wait_for("content"));
  server.server->stop();
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_FALSE(client.wait_for("[DONE]")) << "it ended as if it were whole";
}

// BC-29
TEST(Server, APortInUseIsSaid) {
  const RunningServer server;
  const auto second = Server::start({.port = server.port()}, Log::none());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(std::to_string(server.port())), std::string::npos);
  EXPECT_FALSE(Server::start({.host = "no.such.name"}, Log::none()));
}

}  // namespace
}  // namespace penstock
