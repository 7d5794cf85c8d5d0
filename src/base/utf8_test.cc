#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

TEST(Utf8, TakesWhatRfc3629Allows) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\u00e9\u0416\u4e2d\U0001F600"));
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
  EXPECT_TRUE(is_utf8("\xED\x9F\xBF\xEE\x80\x80")) << "the neighbours of the surrogates";
  EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF")) << "U+10FFFF";
}

TEST(Utf8, RefusesEverythingElse) {
  for (const std::string text : {
           "\x80",              // a lone continuation
           "\xC3",              // cut short
           "\xE4\xB8",          // cut short
           "\xF0\x9F\x98",      // cut short
           "\xC3\x28",          // a lead and no continuation
           "\xE4\xB8\x28",      //
           "\xC0\xAF",          // overlong '/'
           "\xC1\xBF",          // overlong
           "\xE0\x9F\xBF",      // overlong
           "\xF0\x8F\xBF\xBF",  // overlong
           "\xED\xA0\x80",      // a surrogate
           "\xF4\x90\x80\x80",  // above U+10FFFF
           "\xF5\x80\x80\x80",  //
           "\xFF",              //
       }) {
    EXPECT_FALSE(is_utf8(text)) << testing::PrintToString(text);
    EXPECT_FALSE(is_utf8("ab" + text + "cd")) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace penstock
