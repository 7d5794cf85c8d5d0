#include "engine/answer/code_fence.h"

#include <gtest/gtest.h>

#include <string_view>

namespace penstock {
namespace {

bool open_after(std::string_view text) {
  CodeFence fence;
  for (const char byte : text) fence.push(byte);
  return fence.is_open();
}

TEST(CodeFence, OpensAfterItsLine) {
  EXPECT_TRUE(open_after("```\n"));
  EXPECT_TRUE(open_after("text\n   ~~~~ python\ncode\n"));
  EXPECT_FALSE(open_after("```"));
  EXPECT_FALSE(open_after("``\n"));
  EXPECT_FALSE(open_after("    ```\n")) << "an indented block";
  EXPECT_FALSE(open_after("a ```\n"));
  EXPECT_FALSE(open_after("``` code ```\n")) << "code within a line";
}

TEST(CodeFence, ClosesWithAsManyOfTheSameOnALineOfTheirOwn) {
  EXPECT_FALSE(open_after("```\nx\n```\n"));
  EXPECT_FALSE(open_after("~~~\nx\n~~~~~  \n"));
  EXPECT_TRUE(open_after("````\n```\n"));
  EXPECT_TRUE(open_after("```\n~~~\n"));
  EXPECT_TRUE(open_after("```\n``` x\n"));
  EXPECT_TRUE(open_after("```\nx\n```\ny\n```\n")) << "a second one";
}

}  // namespace
}  // namespace penstock
