#include "cli/client/chat_remote.h"

#include <gmock/gmock.h>

#include "cli/client/fake_server_test.h"

namespace penstock {
namespace {

using testing::HasSubstr;

BlockingClient client_of(const FakeServer& server) {
  return BlockingClient(
      {.url = parse_server_url(server.url()).value(), .silence_timeout = std::chrono::seconds(5)});
}

TEST(ChatBody, SaysOnlyWhatChangesSomething) {
  const OrderedJson messages = OrderedJson::array({{{"role", "user"}, {"content", "hi"}}});
  AnswerOptions answer = {.sampling = {.temperature = 0.5, .top_p = 0.9}};
  EXPECT_EQ(chat_body("m", messages, answer).dump(),
            R"({"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,)"
            R"("temperature":0.5,"top_p":0.9})");
  answer.sampling.top_k = 5;
  answer.sampling.frequency_penalty = 1;
  answer.seed = 7;
  answer.max_tokens = 3;
  answer.stop = {"x"};
  const OrderedJson body = chat_body("m", messages, answer);
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["frequency_penalty"], 1);
  EXPECT_EQ(body["seed"], 7);
  EXPECT_EQ(body["max_tokens"], 3);
  EXPECT_EQ(body["stop"], OrderedJson::array({"x"}));
}

TEST(RemoteAnswer, IsItsTextWithoutTheReasoning) {
  FakeServer server(
      {{.pieces = {
            std::string(kEventsHeader),
            http_chunk(": keep-alive\n\n"),
            http_chunk("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"),
            http_chunk("data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\r\n\r\n"
                       "data: {\"choices\":[{\"delta\":{\"content\":\"is\"}}]}\n\n"),
            http_chunk("data: [DONE]\n\n"),
            "0\r\n\r\n",
        }}});
  BlockingClient client = client_of(server);
  testing::internal::CaptureStdout();
  const auto text = show_remote_answer(client, OrderedJson::object());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "Paris");  // no terminal, no reasoning
  EXPECT_EQ(text.value(), "Paris");
}

TEST(RemoteAnswer, OneThatIsCutOffIsAnError) {
  FakeServer server(
      {{.pieces = {std::string(kEventsHeader),
                   http_chunk("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
                   "0\r\n\r\n"}}});
  BlockingClient client = client_of(server);
  testing::internal::CaptureStdout();
  const auto text = show_remote_answer(client, OrderedJson::object());
  testing::internal::GetCapturedStdout();
  EXPECT_THAT(text.error().message, HasSubstr("in the middle of the answer"));
}

}  // namespace
}  // namespace penstock
