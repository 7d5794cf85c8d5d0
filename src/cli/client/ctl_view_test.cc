#include "cli/client/ctl_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CtlView, Status) {
  const Json answer = Json::parse(R"({
    "model": "smollm", "version": "0.1.0", "uptime_s": 245.2, "state": "ready", "waiting": 1,
    "running": 4, "pages": {"total": 1280, "free": 900, "cached": 20},
    "prefix": {"prompt_tokens": 4000, "hit_tokens": 1000},
    "tokens": {"prefill": 3000, "decode": 1234567}, "connections": 6})");
  EXPECT_EQ(view_status(answer, 80),
            "model        smollm\n"
            "state        ready\n"
            "version      0.1.0\n"
            "up for       4 min 05 s\n"
            "requests     4 running, 1 waiting\n"
            "connections  6\n"
            "KV pages     900 free, 20 kept for prefixes, 1,280 in all\n"
            "prefix hits  1,000 of 4,000 prompt tokens (25 %)\n"
            "tokens       3,000 prefilled, 1,234,567 decoded\n");
}

TEST(CtlView, AnotherVersionsStatusHasGaps) {
  const std::string shown = view_status(Json::parse(R"({"model": 7, "pages": null})"), 80);
  EXPECT_TRUE(shown.starts_with("model        ?\nstate        ?\n")) << shown;
  EXPECT_NE(shown.find("? of ? prompt tokens\n"), std::string::npos) << shown;
  EXPECT_EQ(view_requests(Json("x"), 80), "No request is waiting or running.\n");
}

TEST(CtlView, RequestsFitTheTerminal) {
  const Json answer = Json::parse(R"({"data": [
    {"id": "chatcmpl-0011", "route": "/v1/chat/completions", "state": "decoding",
     "prompt_tokens": 1234, "completion_tokens": 5, "age_s": 0.5},
    {"id": "cmpl-\u001b[2J", "route": "/v1/completions", "state": "waiting",
     "prompt_tokens": 7, "completion_tokens": 0, "age_s": 12}]})");
  EXPECT_EQ(view_requests(answer, 80),
            "id             route                 state     prompt  answer     age\n"
            "chatcmpl-0011  /v1/chat/completions  decoding   1,234       5  500 ms\n"
            "cmpl- [2J      /v1/completions       waiting        7       0  12.0 s\n");
}

// `ctl cancel` wants the id as it is.
TEST(CtlView, AnIdIsNeverCut) {
  const std::string id = "chatcmpl-e90b6bf19cef25119f0c9c79";  // as long as the server's are
  const Json answer = Json::parse(fmt::format(
      R"({{"data": [{{"id": "{}", "route": "/v1/chat/completions", "state": "prefilling",
          "prompt_tokens": 1234, "completion_tokens": 0, "age_s": 0.015}}]}})",
      id));
  EXPECT_EQ(view_requests(answer, 80),
            "id                                 route       state       prompt  answer    age\n" +
                id + "  /v1/chat/…  prefilling   1,234       0  15 ms\n");
  EXPECT_NE(view_requests(answer, 20).find(id), std::string::npos);
}

TEST(CtlView, Acts) {
  EXPECT_EQ(view_cancel(Json::parse(R"({"id":"a-1","cancelled":true})"), 80),
            "a-1 is cancelled.\n");
  EXPECT_EQ(view_drop_cache(Json::parse(R"({"pages_freed":12})"), 80), "12 KV pages were freed.\n");
}

}  // namespace
}  // namespace penstock
