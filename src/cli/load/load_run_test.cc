#include "cli/load/load_run.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "cli/client/fake_server_test.h"
#include "cli/load/calibrate.h"
#include "cli/load/load_report.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string event(std::string_view json) { return http_chunk(fmt::format("data: {}\n\n", json)); }
std::string text_event(std::string_view text) {
  return event(fmt::format(R"({{"choices":[{{"delta":{{"content":"{}"}}}}]}})", text));
}
const std::string kUsage =
    event(R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}})");
const std::string kDone = http_chunk("data: [DONE]\n\n") + "0\r\n\r\n";

// Two chunks for what the usage calls three tokens.
ScriptedReply answer(bool usage) {
  return {.pieces = {std::string(kEventsHeader),
                     event(R"({"choices":[{"delta":{"role":"assistant"}}]})"), text_event("a"),
                     http_chunk(": keep-alive\n\n"), text_event("b"),
                     (usage ? kUsage : "") + kDone}};
}

LoadTarget target_of(const std::string& url) {
  return {.connection = {.url = parse_server_url(url).value(),
                         .silence_timeout = std::chrono::seconds(5)},
          .model = "m"};
}

LoadRequest request_of(int64_t i) { return {.prompt = fmt::format("p{}", i), .max_tokens = 3}; }

TEST(LoadCall, HasStandardFieldsOnly) {
  LoadTarget target = {.model = "m"};
  const LoadRequest request = {.prompt = "hi", .max_tokens = 5};
  const HttpCall chat = load_call(target, request, /*stream=*/true);
  EXPECT_EQ(chat.path, "/v1/chat/completions");
  EXPECT_EQ(chat.body, R"({"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,)"
                       R"("temperature":0,"stream":true,"stream_options":{"include_usage":true}})");
  target.route = LoadRoute::kCompletions;
  target.ignore_eos = true;
  const HttpCall text = load_call(target, request, /*stream=*/false);
  EXPECT_EQ(text.path, "/v1/completions");
  EXPECT_EQ(text.body,
            R"({"model":"m","prompt":"hi","max_tokens":5,"temperature":0,"ignore_eos":true})");
}

TEST(LoadRun, ClosedLoopSendsEachRequestOnceAndCountsByUsage) {
  FakeServer server({answer(true), answer(true), answer(true)});
  const auto result = run_load({.concurrency = 1, .n_requests = 3}, target_of(server.url()),
                               request_of, /*progress=*/{});
  ASSERT_EQ(result.records.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const RequestRecord& record = result.records[i];
    EXPECT_EQ(record.failure, "") << record.message;
    EXPECT_EQ(record.n_chunks, 2);
    EXPECT_EQ(record.gaps.size(), 1u);
    EXPECT_EQ(record.input_tokens, 9);
    EXPECT_EQ(record.output_tokens, 3);
    EXPECT_LE(record.began, record.first);
    EXPECT_LE(record.first, record.ended);
    EXPECT_THAT(server.requests()[i], HasSubstr(fmt::format("\"p{}\"", i)));
  }
  EXPECT_EQ(result.seconds, result.records[2].ended);
  EXPECT_EQ(server.n_connections(), 1);  // kept alive
}

TEST(LoadRun, WithoutUsageChunksAreCountedAndItIsSaid) {
  FakeServer server({answer(false)});
  const LoadShape shape = {.concurrency = 1, .n_requests = 1};
  const auto result = run_load(shape, target_of(server.url()), request_of, /*progress=*/{});
  const LoadRow row = summarize(shape, result);
  EXPECT_EQ(row.output_tokens, 2);
  EXPECT_EQ(to_json(row)["tokens_counted_by"], "chunks");
  EXPECT_TRUE(to_json(row)["input_tok_s"].is_null());
  EXPECT_THAT(remarks({row}), ElementsAre(HasSubstr("without usage")));
}

TEST(LoadRun, EachKindOfFailureIsCounted) {
  FakeServer server({answer(true),
                     {.pieces = {http_reply("429 Too Many", R"({"error":{"message":"full"}})")}},
                     {.pieces = {http_reply("429 Too Many", R"({"error":{"message":"again"}})")}},
                     {.pieces = {std::string(kEventsHeader), text_event("a"),
                                 event(R"({"error":{"message":"lost"}})")},
                      .close = true},
                     {.pieces = {std::string(kEventsHeader), text_event("a")}, .close = true}});
  const LoadShape shape = {.concurrency = 1, .n_requests = 5};
  const LoadRow row =
      summarize(shape, run_load(shape, target_of(server.url()), request_of, /*progress=*/{}));
  EXPECT_EQ(row.n_answered, 1);
  EXPECT_EQ(row.n_failed(), 4);
  EXPECT_EQ(row.failures.at("HTTP 429"), 2);
  EXPECT_EQ(row.failures.at("error in the stream"), 1);
  EXPECT_EQ(row.failures.at("cut off"), 1);
  EXPECT_THAT(row.messages.at("HTTP 429"), HasSubstr("full"));
  EXPECT_EQ(row.output_tokens, 3);  // of the answered one
  EXPECT_EQ(row.first_ms.n, 1u);
}

TEST(LoadRun, OpenLoopBeginsWhenDueWhateverHappens) {
  std::string nobody;
  {
    FakeServer server(std::vector<ScriptedReply>{});
    nobody = server.url();
  }
  const LoadShape shape = {.rate = 500, .n_requests = 50, .seed = 11};
  const auto result = run_load(shape, target_of(nobody), request_of, /*progress=*/{});
  ASSERT_EQ(result.records.size(), 50u);
  std::vector<double> began;
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.failure, "no connection");
    EXPECT_GE(record.ended, record.began);
    began.push_back(record.began);
  }
  std::ranges::sort(began);
  Random random = random_for(/*seed=*/11, 0);
  double due = 0;
  for (const double time : began) {
    EXPECT_DOUBLE_EQ(time, due);
    due += exponential_draw(random, 500);
  }
}

TEST(LoadRun, SecondsBoundWhatBegins) {
  std::string nobody;
  {
    FakeServer server(std::vector<ScriptedReply>{});
    nobody = server.url();
  }
  const auto result = run_load({.rate = 200, .seconds = 0.3, .seed = 1}, target_of(nobody),
                               request_of, /*progress=*/{});
  EXPECT_GT(result.records.size(), 10u);
  for (const RequestRecord& record : result.records) EXPECT_LT(record.began, 0.3);
}

TEST(Calibrate, FromUsage) {
  const auto reply = [](int n) {
    return ScriptedReply{
        .pieces = {http_reply("200 OK", fmt::format(R"({{"usage":{{"prompt_tokens":{}}}}})", n))}};
  };
  FakeServer server({reply(30), reply(110)});  // 8 words and 72
  BlockingClient client(target_of(server.url()).connection);
  const auto sizing = calibrate(client, target_of(server.url()), /*seed=*/1).value().value();
  EXPECT_DOUBLE_EQ(sizing.per_word, 1.25);
  EXPECT_DOUBLE_EQ(sizing.overhead, 20);
  EXPECT_THAT(server.requests()[0], HasSubstr("\"max_tokens\":1"));
}

TEST(Calibrate, FromTokenizeWhereThereIsNoUsage) {
  const ScriptedReply no_usage = {.pieces = {http_reply("200 OK", R"({"choices":[]})")}};
  FakeServer server({no_usage,
                     {.pieces = {http_reply("200 OK", R"({"tokens":[1,2,3,4,5,6,7,8]})")}},
                     no_usage,
                     {.pieces = {http_reply("200 OK", R"({"count":136})")}}});
  BlockingClient client(target_of(server.url()).connection);
  const auto sizing = calibrate(client, target_of(server.url()), /*seed=*/1).value().value();
  EXPECT_DOUBLE_EQ(sizing.per_word, 2);
  EXPECT_DOUBLE_EQ(sizing.overhead, -8);
}

TEST(Calibrate, AServerThatCountsNothingAndOneThatRefuses) {
  FakeServer silent(
      {{.pieces = {http_reply("200 OK", "{}")}}, {.pieces = {http_reply("404 Not Found", "{}")}}});
  BlockingClient client(target_of(silent.url()).connection);
  EXPECT_EQ(calibrate(client, target_of(silent.url()), 1).value(), std::nullopt);
  FakeServer refuses(std::vector<ScriptedReply>{
      {.pieces = {http_reply("401 Unauthorized", R"({"error":"key"})")}}});
  BlockingClient other(target_of(refuses.url()).connection);
  EXPECT_THAT(calibrate(other, target_of(refuses.url()), 1).error().message,
              HasSubstr("with 401: key"));
}

TEST(LoadReport, FitsAHundredColumns) {
  LoadRow row = {.shape = {.concurrency = 4096},
                 .seconds = 86400,
                 .n_answered = 1'000'000,
                 .input_tokens = 100'000'000,
                 .output_tokens = 100'000'000};
  row.failures["timeout"] = 12345;
  row.first_ms = row.gap_ms = row.whole_ms = {.n = 1,
                                              .mean = 123456.7,
                                              .p50 = 123456.7,
                                              .p90 = 123456.7,
                                              .p99 = 123456.7,
                                              .max = 1234567.8};
  const std::string text = to_table({row, {.shape = {.rate = 0.25}}}, 100);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  }
  EXPECT_EQ(text.find("…"), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("4096 at once    1000000   12345  86400.0"));
  EXPECT_THAT(text, HasSubstr("0.25 a second  to the first token         -         -"));
}

}  // namespace
}  // namespace penstock
