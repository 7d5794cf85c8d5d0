#include "memory/expert_slots.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ExpertSlots, ANumberAShareOrAll) {
  EXPECT_EQ(parse_expert_slots("300")->of(1000), 300);
  EXPECT_EQ(parse_expert_slots("25%")->of(1000), 250);
  EXPECT_EQ(parse_expert_slots("12.5%")->of(1000), 125);
  EXPECT_EQ(parse_expert_slots("all")->of(1000), 1000);
  EXPECT_EQ(parse_expert_slots("1%")->of(64), 1) << "a share of few experts is still one";
}

TEST(ExpertSlots, NeitherIsGiven) {
  EXPECT_FALSE(ExpertSlots{}.is_given());
  EXPECT_EQ(ExpertSlots{}.of(1000), 0);
  EXPECT_TRUE(parse_expert_slots("1")->is_given());
}

TEST(ExpertSlots, AnythingElseIsRefusedWithTheFlag) {
  for (const char* text : {"", "%", "0", "0%", "-1", "101%", "nan%", "inf%", "5%%", "2.5", "x",
                           "3 ", "99999999999999999999"}) {
    const auto slots = parse_expert_slots(text);
    ASSERT_FALSE(slots) << text;
    EXPECT_EQ(slots.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_TRUE(slots.error().message.starts_with("--expert-slots")) << slots.error().message;
  }
}

}  // namespace
}  // namespace penstock
