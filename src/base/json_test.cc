#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

TEST(Json, SaysWhereItIsWrong) {
  const auto parsed = parse_json("{\"a\": 1,\n  oops}");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidData);
  EXPECT_NE(parsed.error().message.find("line 2"), std::string::npos) << parsed.error().message;
}

TEST(Json, DepthIsBoundedExactly) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64)));
  EXPECT_FALSE(parse_json(nested(65)));
  EXPECT_FALSE(parse_json(nested(1'000'000)));
}

TEST(Json, DuplicatesAreRefusedOnlyWhereAsked) {
  EXPECT_TRUE(parse_json(R"({"a":1,"a":2})"));
  EXPECT_FALSE(parse_json(R"({"a":1,"a":2})", {.refuse_duplicates = true}));
  EXPECT_TRUE(parse_json(R"({"a":{"a":1},"b":{"a":2}})", {.refuse_duplicates = true}));
}

TEST(Json, KeysOfOneObjectAreBoundedExactly) {
  const JsonLimits two{.max_keys = 2};
  EXPECT_TRUE(parse_ordered_json(R"({"a":1,"b":{"a":1,"b":2}})", two));
  EXPECT_FALSE(parse_ordered_json(R"({"a":1,"b":{"a":1,"b":2,"c":3}})", two));
  EXPECT_FALSE(parse_ordered_json(R"({"a":{"a":1},"b":{},"c":3})", two));
}

TEST(Json, NulBytesDoNotEndTheText) {
  EXPECT_FALSE(parse_json(std::string_view("{}\0", 3)));
  EXPECT_FALSE(parse_json(std::string_view("{}\0 oops", 8)));
  EXPECT_FALSE(parse_json(std::string_view("\"a\0b\"", 5)));
  EXPECT_TRUE(parse_json(R"("a\u0000b")")) << "an escaped one is a character like others";
}

TEST(Json, InvalidUtf8IsAnErrorNotAnException) { EXPECT_FALSE(parse_json("\"\xff\"")); }

}  // namespace
}  // namespace penstock
