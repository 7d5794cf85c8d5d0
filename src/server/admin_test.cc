// What operators ask and do, and what a long answer goes through meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "server/test_server.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kJsonHeaders =
    "Host: localhost\r\nContent-Type: application/json; charset=utf-8\r\n";

// A model whose steps wait until it is opened.
struct Gate {
  std::promise<void> promise = {};
  FakeModelOptions model(FakeModelOptions options, int open_steps = 0) {
    options.on_step = [gate = promise.get_future().share(), open_steps,
                       step = 0](auto) mutable -> Result<void> {
      if (step++ >= open_steps) gate.wait();
      return {};
    };
    return options;
  }
  void open() { promise.set_value(); }
};

TEST(Admin, StatusBeforeAndAfterLoading) {
  const auto loading = Server::start({}, Log::none()).value();
  const Json early = ask(loading->port(), "GET", "/v1/status").json();
  EXPECT_EQ(early["state"], "loading");
  EXPECT_TRUE(early["model"].is_null());
  EXPECT_EQ(early["pages"]["total"], 0);
  EXPECT_EQ(ask(loading->port(), "GET", "/v1/requests").json(), Json::parse(R"({"data":[]})"));

  const RunningServer server({.n_pages = 8});
  const Json status = server.get("/v1/status").json();
  EXPECT_EQ(status["state"], "ready");
  EXPECT_EQ(status["model"], "fake");
  EXPECT_EQ(status["waiting"], 0);
  EXPECT_EQ(status["running"], 0);
  EXPECT_EQ(status["pages"]["total"], 8);
  EXPECT_EQ(status["pages"]["free"], 8);
  EXPECT_EQ(status["connections"], 1) << "the one that asks";
  EXPECT_GE(status["uptime_s"].get<double>(), 0.0);
  EXPECT_TRUE(status["version"].is_string());
  server.server->drain(milliseconds(0));
  EXPECT_EQ(server.get("/v1/status").json()["state"], "draining");
}

TEST(Admin, RequestsAreListedWithoutTheirWords) {
  Gate gate;
  const RunningServer server(gate.model(saying(bytes_of("hello")), /*open_steps=*/3));
  TestClient client(server.port());
  client.request("POST", kChat, chat_body(R"("stream":true)", "xyzzy"));
  ASSERT_TRUE(client.wait_for(R"("content":"e")"));
  const TestResponse list = server.get("/v1/requests");
  const Json running = list.json()["data"];
  ASSERT_EQ(running.size(), 1U) << list.body;
  EXPECT_TRUE(running[0]["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_NE(client.received().find(running[0]["id"].get<std::string>()), std::string::npos)
      << "the id is the answer's";
  EXPECT_EQ(running[0]["route"], kChat);
  EXPECT_EQ(running[0]["state"], "decoding");
  EXPECT_EQ(running[0]["prompt_tokens"], 24);
  EXPECT_GE(running[0]["completion_tokens"], 2);
  EXPECT_GE(running[0]["age_s"].get<double>(), 0.0);
  EXPECT_EQ(list.body.find("xyzzy"), std::string::npos);
  gate.open();
  EXPECT_EQ(read_stream(client.response()).text, "hello");
  EXPECT_TRUE(eventually([&] { return server.n_listed() == 0; }));
}

// At every stage: a stream, a whole answer, one that has not begun.
TEST(Admin, CancellingEndsARequestAndSaysSo) {
  const RunningServer server(talking_for_ever(), {}, {.scheduler = {.max_running = 2}});
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto begin = [&](std::string_view fields) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->request("POST", kChat, chat_body(fields));
    for (int i = 0; i < 10'000; ++i) {
      const Json list = server.get("/v1/requests").json()["data"];
      if (list.size() == clients.size()) return list.back()["id"].get<std::string>();
      std::this_thread::sleep_for(milliseconds(1));
    }
    return std::string("none");
  };
  std::vector<std::string> ids;
  for (const std::string_view fields : {R"("stream":true)", "", R"("stream":true,"n":2)"}) {
    ids.push_back(begin(fields));
  }
  for (size_t i = ids.size(); i-- > 0;) {
    const TestResponse cancelled =
        ask(server.port(), "DELETE", "/v1/requests/" + ids[i], "", kJsonHeaders);
    EXPECT_EQ(cancelled.status, 200) << cancelled.body;
    EXPECT_EQ(cancelled.json()["id"], ids[i]);
    EXPECT_EQ(cancelled.json()["cancelled"], true);
    const TestResponse answer = clients[i]->response();
    const bool streamed = answer.headers.at("content-type") == "text/event-stream";
    EXPECT_EQ(answer.status, streamed ? 200 : 503) << i;
    const Json last = streamed ? parse_json(answer.events().back()).value() : answer.json();
    EXPECT_EQ(last["error"]["code"], "cancelled") << answer.body;
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_TRUE(eventually([&] { return server.n_listed() == 0; }));
  EXPECT_EQ(ask(server.port(), "DELETE", "/v1/requests/" + ids[0]).status, 404);
  EXPECT_EQ(ask(server.port(), "DELETE", "/v1/requests/").status, 404);
  EXPECT_EQ(server.chat(chat_body(R"("max_tokens":2)")).status, 200);
}

TEST(Admin, TheCacheCanBeDropped) {
  const RunningServer server(saying(bytes_of("hello")));
  const std::string body = chat_body("", std::string(300, 'x'));
  const auto cached = [&](const std::string& asked) {
    return server.chat(asked)
        .json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int64_t>();
  };
  EXPECT_EQ(cached(body), 0);
  EXPECT_GT(cached(body), 256);
  EXPECT_TRUE(server.becomes_idle());
  const Json before = server.get("/v1/status").json();
  EXPECT_GT(before["pages"]["cached"], 4);
  EXPECT_GT(before["prefix"]["hit_tokens"], 256);
  EXPECT_EQ(before["prefix"]["prompt_tokens"], 2 * 319);
  EXPECT_GE(before["tokens"]["prefill"], 319);
  EXPECT_GE(before["tokens"]["decode"], 10);
  expect_error(ask(server.port(), "POST", "/v1/cache/drop", "{}"), 415, "application/json");
  const Json dropped = ask(server.port(), "POST", "/v1/cache/drop", "{}", kJsonHeaders).json();
  EXPECT_EQ(dropped["pages_freed"], before["pages"]["cached"]);
  EXPECT_EQ(server.get("/v1/status").json()["pages"]["cached"], 0);
  EXPECT_EQ(cached(body), 0);
}

// A shared prefix shows in how fast an answer begins: only those of one key share theirs.
TEST(Admin, PrefixesAreSharedWithinAKey) {
  const auto cached = [](const RunningServer& server, std::string_view key) {
    const std::string headers = fmt::format("Host: localhost\r\nAuthorization: Bearer {}\r\n", key);
    return ask(server.port(), "POST", kChat, chat_body("", std::string(300, 'x')), headers)
        .json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int64_t>();
  };
  ServerOptions options{.access = {.api_keys = {"sk-one", "sk-two"}}};
  const RunningServer by_key(saying(bytes_of("hello")), options);
  EXPECT_EQ(cached(by_key, "sk-one"), 0);
  EXPECT_EQ(cached(by_key, "sk-two"), 0);
  EXPECT_GT(cached(by_key, "sk-one"), 256);

  options.prefix_sharing = PrefixSharing::kAll;
  const RunningServer all(saying(bytes_of("hello")), options);
  EXPECT_EQ(cached(all, "sk-one"), 0);
  EXPECT_GT(cached(all, "sk-two"), 256);

  options.prefix_sharing = PrefixSharing::kOff;
  const RunningServer off(saying(bytes_of("hello")), options);
  EXPECT_EQ(cached(off, "sk-one"), 0);
  EXPECT_EQ(cached(off, "sk-one"), 0);
  EXPECT_EQ(off.get("/health").status, 200);
}

TEST(Admin, StopAnswersFirstAndThenStops) {
  std::promise<void> stopping;
  const RunningServer server(saying(bytes_of("x")), {.on_stop = [&] { stopping.set_value(); }});
  const TestResponse stopped = ask(server.port(), "POST", "/v1/stop", "{}", kJsonHeaders);
  EXPECT_EQ(stopped.status, 202);
  EXPECT_EQ(stopping.get_future().wait_for(seconds(20)), std::future_status::ready);
}

TEST(Admin, AnAnswerThatTakesTooLongIsGivenUp) {
  const RunningServer server(talking_for_ever(), {.answer_timeout = milliseconds(300)});
  const TestResponse whole = server.chat(chat_body());
  expect_error(whole, 503, "0.3 s");
  const TestResponse stream = server.chat(chat_body(R"("stream":true)"));
  ASSERT_FALSE(stream.events().empty());
  EXPECT_EQ(parse_json(stream.events().back()).value()["error"]["code"], "cancelled");
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.chat(chat_body(R"("max_tokens":2)")).status, 200);
}

TEST(Admin, AWaitingStreamSendsComments) {
  Gate gate;
  const RunningServer server(gate.model(saying(bytes_of("hello"))),
                             {.keep_alive_interval = milliseconds(50)});
  TestClient client(server.port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  ASSERT_TRUE(client.wait_for(": keep-alive\n\n"));
  EXPECT_TRUE(client.wait_for(": keep-alive\n\n\r\ne\r\n: keep-alive\n\n")) << "again and again";
  gate.open();
  EXPECT_EQ(read_stream(client.response()).text, "hello");

  const RunningServer quick(saying(bytes_of("hello")), {.keep_alive_interval = seconds(30)});
  EXPECT_EQ(quick.chat(chat_body(R"("stream":true)")).body.find("keep-alive"), std::string::npos);
}

TEST(MetricsRoute, CountsWhatHappened) {
  const RunningServer server(saying(bytes_of("hello")));
  server.chat(chat_body());
  server.chat(chat_body(R"("stream":true)"));
  server.chat(chat_body(R"("temperature":9)"));
  server.get("/no/such/route");
  EXPECT_TRUE(server.becomes_idle());
  int n_looks = 0;  // each is a response too, counted once it is sent
  EXPECT_TRUE(eventually([&] {
    ++n_looks;
    return server.n_answers("completed") == 2;
  }));
  const TestResponse response = server.get("/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.headers.at("content-type").starts_with("text/plain; version=0.0.4"));
  ++n_looks;
  EXPECT_EQ(server.metric(R"(penstock_http_responses_total{status="200"})"), 2 + n_looks);
  EXPECT_EQ(server.n_answers("refused"), 1);
  EXPECT_EQ(server.metric(R"(penstock_http_responses_total{status="400"})"), 1);
  EXPECT_EQ(server.metric(R"(penstock_http_responses_total{status="404"})"), 1);
  EXPECT_EQ(server.metric("penstock_time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(server.metric("penstock_inter_token_seconds_count"), 8) << "five tokens, twice";
  EXPECT_EQ(server.metric("penstock_requests_running"), 0);
  EXPECT_EQ(server.metric(R"(penstock_kv_pages{state="used"})"), 0);
  EXPECT_EQ(server.metric(R"(penstock_kv_pages{state="free"})") +
                server.metric(R"(penstock_kv_pages{state="cached"})"),
            64);
  EXPECT_EQ(server.metric("penstock_prompt_tokens_total"), 42);
  EXPECT_GE(server.metric("penstock_decode_tokens_total"), 10);
  EXPECT_GT(server.metric(R"(penstock_step_seconds_total{part="model"})"), 0);
  EXPECT_GE(server.metric("penstock_steps_total"), 12);
  EXPECT_GE(server.metric("penstock_connections"), 1) << "earlier ones may still be closing";
}

TEST(Admin, ExpertsOnDiskHaveMetricsAndOthersHaveNone) {
  FakeModelOptions on_disk = saying(bytes_of("hello"));
  on_disk.experts = ExpertCounts{.n_hits = 30,
                                 .n_misses = 10,
                                 .n_prefetches = 8,
                                 .n_prefetches_used = 6,
                                 .bytes_read = 5'000'000'000,
                                 .wait_seconds = 1.5};
  const RunningServer server(std::move(on_disk));
  EXPECT_EQ(server.metric(R"(penstock_expert_uses_total{from="ram"})"), 30);
  EXPECT_EQ(server.metric(R"(penstock_expert_uses_total{from="disk"})"), 10);
  EXPECT_EQ(server.metric(R"(penstock_expert_prefetches_total{used="true"})"), 6);
  EXPECT_EQ(server.metric(R"(penstock_expert_prefetches_total{used="false"})"), 2);
  EXPECT_EQ(server.metric("penstock_expert_read_bytes_total"), 5e9);
  EXPECT_EQ(server.metric("penstock_expert_wait_seconds_total"), 1.5);
  const RunningServer other(saying(bytes_of("hello")));
  EXPECT_EQ(other.get("/metrics").body.find("penstock_expert"), std::string::npos);
}

TEST(MetricsRoute, TellsTheOutcomesApart) {
  const RunningServer server(talking_for_ever(), {.answer_timeout = milliseconds(400)});
  {
    TestClient leaver(server.port());
    leaver.request("POST", kChat, chat_body(R"("stream":true)"));
    EXPECT_TRUE(leaver.wait_for("content"));
  }
  server.chat(chat_body());
  EXPECT_TRUE(eventually([&] { return server.n_answers("disconnected") == 1; }));
  EXPECT_TRUE(eventually([&] { return server.n_answers("cancelled") == 1; }));
  EXPECT_EQ(server.n_answers("completed"), -1) << "not one";
}

}  // namespace
}  // namespace penstock
