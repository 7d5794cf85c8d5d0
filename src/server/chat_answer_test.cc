// Chat completions from the request's body to the answer's, on scripted output: calls, reasoning,
// log probabilities and choices, as stream and as whole.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/fake_chat.h"
#include "server/chat_handler.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

constexpr std::string_view kTools = R"("tools":[
  {"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{
    "path":{"type":"string"},"limit":{"type":"integer"}}}}},
  {"type":"function","function":{"name":"now"}}])";

constexpr std::string_view kHermesTemplate =
    "{%- for m in messages %}{{- m.content }}{%- endfor %}{{- '<tool_call></think>' }}"
    "{{- '<|im_start|>assistant\\n' }}";

ServedModel model_with(std::string_view chat_template) {
  return {.name = "fake", .chat = std::make_shared<const ChatFormatter>(fake_text(chat_template))};
}

std::string body_with(std::string_view fields) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}]{}{}}})",
                     fields.empty() ? "" : ",", fields);
}

// What the engine would say: a token for each byte of `text`, with the next pieces of a made-up
// log probability, then the end.
std::vector<Event> events_of(std::string_view text, EndReason reason, bool with_logprobs) {
  std::vector<Event> events;
  for (const int32_t id : bytes_of(text)) {
    TokenEvent token{.id = id};
    if (with_logprobs) {
      token.logprob = -0.25F;
      token.top = {{.id = id, .logprob = -0.25F}, {.id = 'x', .logprob = kLeastLogprob}};
    }
    events.emplace_back(std::move(token));
  }
  events.emplace_back(RequestEnd{.reason = reason});
  return events;
}

// The choices' outputs in turns, as an engine's batch gives them.
std::string answer_to(const std::string& body, const ServedModel& model,
                      const std::vector<std::string>& texts, EndReason reason = EndReason::kStop) {
  AnswerPlan plan = plan_chat(body, model).value();
  EXPECT_EQ(plan.choices.size(), texts.size());
  std::vector<OutputStream> outputs;
  std::vector<std::vector<Event>> scripts;
  size_t longest = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    outputs.push_back(OutputStream::create(model.chat->tokenizer(), plan.choices[i]).value());
    const bool with_logprobs = plan.choices[i].sampling.n_top_logprobs.has_value();
    scripts.push_back(events_of(texts[i], reason, with_logprobs));
    longest = std::max(longest, scripts.back().size());
  }
  std::string written = plan.writer->begin();
  std::vector<bool> ended(texts.size(), false);
  for (size_t step = 0; step < longest; ++step) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (ended[i] || step >= scripts[i].size()) continue;
      const OutputUpdate update = outputs[i].push(scripts[i][step]);
      written += plan.writer->push(i, update);
      ended[i] = update.end.has_value() || plan.writer->is_satisfied(i);
    }
  }
  return written +
         plan.writer->end({.prompt_tokens = 3, .cached_tokens = 2, .completion_tokens = 4});
}

Json whole(std::string_view fields, const ServedModel& model, const std::vector<std::string>& texts,
           EndReason reason = EndReason::kStop) {
  return Json::parse(answer_to(body_with(fields), model, texts, reason));
}

std::vector<Json> chunks(std::string_view fields, const ServedModel& model,
                         const std::vector<std::string>& texts,
                         EndReason reason = EndReason::kStop) {
  const std::string streamed = R"("stream":true)" + std::string(fields.empty() ? "" : ",");
  const std::string events =
      answer_to(body_with(streamed + std::string(fields)), model, texts, reason);
  std::vector<Json> all;
  size_t at = 0;
  for (size_t end = 0; (end = events.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string data = events.substr(at + 6, end - at - 6);
    if (data == "[DONE]") break;
    all.push_back(Json::parse(data));
  }
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  return all;
}

// The message that an OpenAI client puts together from a stream, in the shape of a whole answer's.
Json assembled(const std::vector<Json>& stream, size_t index) {
  Json message = {{"role", "assistant"}, {"content", ""}};
  Json logprobs = Json::array();
  Json reason = nullptr;
  for (const Json& chunk : stream) {
    for (const Json& choice : chunk["choices"]) {
      if (choice["index"] != index) continue;
      EXPECT_TRUE(reason.is_null()) << "nothing comes after the finish reason";
      reason = choice["finish_reason"];
      const Json& delta = choice["delta"];
      for (const char* field : {"content", "reasoning_content"}) {
        if (!delta.contains(field)) continue;
        message[field] = message.value(field, "") + delta[field].get<std::string>();
      }
      if (!choice["logprobs"].is_null()) {
        for (const Json& item : choice["logprobs"]["content"]) logprobs.push_back(item);
      }
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        if (call.contains("id")) {
          EXPECT_EQ(call["index"], message["tool_calls"].size());
          message["tool_calls"].push_back({{"id", call["id"]}, {"type", call["type"]}});
          message["tool_calls"].back()["function"] = call["function"];
          continue;
        }
        EXPECT_EQ(call.size(), 2U) << "index and arguments only: " << call;
        EXPECT_EQ(call["function"].size(), 1U);
        auto& arguments =
            message["tool_calls"][call["index"].get<size_t>()]["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
  }
  if (message.contains("tool_calls") && message["content"] == "") message["content"] = nullptr;
  return {{"message", message}, {"finish_reason", reason}, {"logprobs", logprobs}};
}

// The ids of calls are drawn anew for each answer.
Json without_ids(Json message) {
  if (message.contains("tool_calls")) {
    for (Json& call : message["tool_calls"]) call.erase("id");
  }
  return message;
}

// The whole answer's first choice, once a stream of the same output has been seen to be the same.
Json checked_choice(std::string_view fields, const ServedModel& model, const std::string& text,
                    EndReason reason = EndReason::kStop) {
  Json choice = whole(fields, model, {text}, reason)["choices"][0];
  const Json streamed = assembled(chunks(fields, model, {text}, reason), 0);
  EXPECT_EQ(without_ids(streamed["message"]), without_ids(choice["message"]));
  EXPECT_EQ(streamed["finish_reason"], choice["finish_reason"]);
  if (!choice["logprobs"].is_null()) {
    EXPECT_EQ(streamed["logprobs"], choice["logprobs"]["content"]);
  }
  return choice;
}

const std::string kCall =
    "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

TEST(ChatAnswer, Bc45_CallsAreSplitFromContent) {
  const ServedModel model = model_with(kHermesTemplate);
  const Json choice = checked_choice(kTools, model, "I look.\n" + kCall + "\n" + kCall);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I look.");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"], Json::parse(R"({"name":"read","arguments":"{\"path\":\"a\"}"})"));
}

TEST(ChatAnswer, Bc36_OnlyCallsMeansContentNull) {
  const Json choice = checked_choice(kTools, model_with(kHermesTemplate), kCall);
  EXPECT_TRUE(choice["message"].at("content").is_null());
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
}

TEST(ChatAnswer, Bc49_ACallCutByTheLengthIsNotOfferedAsWhole) {
  const Json choice =
      checked_choice(kTools, model_with(kHermesTemplate), kCall.substr(0, 50), EndReason::kLength);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1U);
  // Nor when the model itself stops in its middle.
  EXPECT_EQ(
      checked_choice(kTools, model_with(kHermesTemplate), kCall.substr(0, 50))["finish_reason"],
      "stop");
}

TEST(ChatAnswer, Bc51_WithoutToolsMarkupIsContent) {
  const ServedModel model = model_with(kHermesTemplate);
  for (const std::string& fields :
       {std::string(), std::string(kTools) + R"(,"tool_choice":"none")"}) {
    const Json choice = checked_choice(fields, model, kCall);
    EXPECT_EQ(choice["message"]["content"], kCall);
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
}

TEST(ChatAnswer, OneCallEndsTheAnswerWithoutParallelCalls) {
  const std::string fields = std::string(kTools) + R"(,"parallel_tool_calls":false)";
  const Json choice = checked_choice(fields, model_with(kHermesTemplate), kCall + kCall + "more");
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1U);
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST(ChatAnswer, Bc35_AStopStringDoesNotShiftTheSplit) {
  const ServedModel model = model_with(kHermesTemplate);
  const std::string text = "<think>\nHm</think>\n\nSo: " + kCall;
  const Json plain = checked_choice(kTools, model, text);
  const Json stopped = checked_choice(
      std::string(kTools) + R"(,"stop":["</thinking>","<tool_calls>"])", model, text);
  EXPECT_EQ(without_ids(stopped["message"]), without_ids(plain["message"]));
  EXPECT_EQ(plain["message"]["reasoning_content"], "Hm");
  EXPECT_EQ(plain["message"]["content"], "So:");
  EXPECT_EQ(plain["finish_reason"], "tool_calls");
  // One that does match cuts the text before anything is made of it.
  const Json cut = checked_choice(std::string(kTools) + R"(,"stop":"\"arguments\"")", model, text);
  EXPECT_EQ(cut["message"]["content"], "So: <tool_call>\n{\"name\": \"read\", ");
  EXPECT_EQ(cut["finish_reason"], "stop");
}

TEST(ChatAnswer, AThoughtThatThePromptOpened) {
  const ServedModel model =
      model_with("{{- '<|im_start|>assistant\\n<think>\\n' }}{#- </think> #}");
  const Json choice = checked_choice("", model, "Hm.\n</think>\n\nYes.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(choice["message"]["content"], "Yes.");
}

TEST(ChatAnswer, Bc55_LogProbabilitiesAlignWithTheText) {
  const ServedModel model = model_with(kChatMl);
  const std::string text = "a\xF0\x9F\x98\x80";
  const Json choice = checked_choice(R"("logprobs":true,"top_logprobs":2)", model, text);
  const Json& items = choice["logprobs"]["content"];
  ASSERT_EQ(items.size(), 5U);
  std::string bytes;
  for (const Json& item : items) {
    for (const Json& byte : item["bytes"]) bytes += static_cast<char>(byte.get<int>());
    EXPECT_EQ(item["logprob"], -0.25);
    ASSERT_EQ(item["top_logprobs"].size(), 2U);
    EXPECT_EQ(item["top_logprobs"][1]["token"], "x");
    EXPECT_EQ(item["top_logprobs"][1]["logprob"], -9999.0);
  }
  EXPECT_EQ(bytes, text);
  EXPECT_EQ(items[0]["token"], "a");
  EXPECT_EQ(items[1]["token"], "\xEF\xBF\xBD") << "a part of a character, as text";
  EXPECT_EQ(items[1]["bytes"], Json::parse("[240]"));
  EXPECT_TRUE(checked_choice("", model, text)["logprobs"].is_null());
}

TEST(ChatAnswer, Bc56_ChoicesAreApart) {
  const ServedModel model = model_with(kHermesTemplate);
  const std::string fields = std::string(kTools) + R"(,"n":3,"seed":5)";
  const std::vector<std::string> texts = {"one", "<think>two</think>" + kCall, "three, and long"};
  const Json answer = whole(fields, model, texts);
  const std::vector<Json> stream = chunks(fields, model, texts);
  ASSERT_EQ(answer["choices"].size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const Json& choice = answer["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(without_ids(assembled(stream, i)["message"]), without_ids(choice["message"]));
  }
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 2);

  const AnswerPlan plan = plan_chat(body_with(fields), model).value();
  EXPECT_EQ(plan.choices[0].sampling.seed, 5U);
  EXPECT_NE(plan.choices[1].sampling.seed, plan.choices[2].sampling.seed);
}

// What a client gets back from us, it sends again: it must come out as the model wrote it.
TEST(ChatAnswer, Bc36_CallsGoBackThroughTheTemplate) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/templates.json");
  const Json templates = Json::parse(file)["templates"];
  for (const auto& [name, written] :
       {std::pair("qwen", kCall),
        std::pair("coder",
                  std::string("<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>"
                              "\n</function>\n</tool_call>"))}) {
    const ServedModel model = model_with(templates[name].get<std::string>());
    const Json answer = whole(kTools, model, {written});
    const Json message = answer["choices"][0]["message"];
    ASSERT_EQ(message["tool_calls"].size(), 1U) << name;
    Json body = Json::parse(body_with(kTools));
    body["messages"].push_back(message);
    body["messages"].push_back(
        {{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "42"}});
    const AnswerPlan plan = plan_chat(body.dump(), model).value();
    const std::string prompt = model.chat->tokenizer().decode(plan.choices[0].prompt, false);
    EXPECT_NE(prompt.find(written), std::string::npos) << prompt;
    EXPECT_NE(prompt.find("42"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
