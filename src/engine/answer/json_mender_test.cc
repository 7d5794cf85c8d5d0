#include "engine/answer/json_mender.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

using Step = JsonMender::Step;

struct Mended {
  std::string out;
  Step step = Step::kMore;
  size_t n_read = 0;  // bytes, with the one that ended it
};

Mended mend(std::string_view text) {
  JsonMender mender;
  Mended mended;
  while (mended.n_read < text.size() && mended.step == Step::kMore) {
    mended.step = mender.push(text[mended.n_read++], mended.out);
  }
  return mended;
}

void expect_mended(std::string_view text, std::string_view json) {
  const Mended mended = mend(text);
  EXPECT_EQ(mended.out, json) << text;
  EXPECT_EQ(mended.step, Step::kDone) << text;
  EXPECT_EQ(mended.n_read, text.size()) << text;
}

TEST(JsonMender, JsonStaysWhatItIsWithoutWhiteSpace) {
  expect_mended("{}", "{}");
  expect_mended(" [ ]", "[]");
  expect_mended("{ \"a\" : [ 1 , -2.5e3, true,\n null ] , \"b c\" : { } }",
                R"({"a":[1,-2.5e3,true,null],"b c":{}})");
  expect_mended(R"("\" \\ \/ \b\f\n\r\t \u00e9 )"
                "\xC3\xA9\"",
                R"("\" \\ \/ \b\f\n\r\t \u00e9 )"
                "\xC3\xA9\"");
}

TEST(JsonMender, MendsWhatCanMeanOneThingOnly) {
  expect_mended("[\"a\nb\tc\x01\"]", R"(["a\nb\tc\u0001"])");
  expect_mended(R"(["\d+ \u12x \x41 \u"])", R"(["\\d+ \\u12x \\x41 \\u"])");
  expect_mended("[1, 2,]", "[1,2]");
  expect_mended("{\"a\": 1,}", R"({"a":1})");
  expect_mended("[True, False, None, NaN, 007, 1e999, .5, -, yes]",
                R"([true,false,null,"NaN","007","1e999",".5","-","yes"])");
}

TEST(JsonMender, ATextEndsWhereABegunEscapeMeetsItsQuote) {
  expect_mended(R"("path\u")", R"("path\\u")");
  expect_mended(R"("path\u12")", R"("path\\u12")");
  expect_mended(R"({"a\u":"b\u1"})", R"({"a\\u":"b\\u1"})");
}

TEST(JsonMender, ABareWordEndsBeforeWhatFollows) {
  for (const std::string text : {"12,", "12}", "12 "}) {
    const Mended mended = mend(text);
    EXPECT_EQ(mended.step, Step::kDoneBefore);
    EXPECT_EQ(mended.out, "12");
  }
}

TEST(JsonMender, OtherTextComesBackAsItIs) {
  for (const std::string text : {"}", ",", "[1 2", "[1,,", "{1", "{\"a\" 1", "{\"a\":}", "{,",
                                 "[1}", "{\"a\":1]", "[a:", "[1{", "{\"a\":,"}) {
    const Mended mended = mend(text);
    EXPECT_EQ(mended.step, Step::kBroken) << text;
    EXPECT_EQ(mended.n_read, text.size()) << text;
    std::string without_space = text;
    std::erase(without_space, ' ');
    EXPECT_EQ(mended.out, without_space);
  }
  EXPECT_EQ(mend("[[1,] 2").out, "[[1]2") << "a comma that was left out stays so";
  EXPECT_EQ(mend(std::string(5000, 'x')).step, Step::kBroken) << "no word is so long";
}

TEST(JsonMender, DepthIsBounded) {
  const std::string deepest = std::string(64, '[') + std::string(64, ']');
  expect_mended(deepest, deepest);
  EXPECT_EQ(mend(std::string(65, '[')).step, Step::kBroken);
}

TEST(JsonMender, WhatIsHeldBackIsThereInTheEnd) {
  for (const std::string text : {"[12", "[\"a\\", "[\"\\u12", "[1,"}) {
    JsonMender mender;
    std::string out;
    for (const char byte : text) mender.push(byte, out);
    mender.flush(out);
    EXPECT_EQ(out, text);
  }
}

TEST(JsonMender, NumbersOfJson) {
  for (const std::string number : {"0", "-0", "10", "1.5", "-1.25e+10", "1E3", "2e-9"}) {
    EXPECT_TRUE(is_json_number(number)) << number;
  }
  for (const std::string other :
       {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1 ", "1e400", "inf", "nan"}) {
    EXPECT_FALSE(is_json_number(other)) << other;
  }
}

}  // namespace
}  // namespace penstock
