#include "memory/routing/routing_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace penstock {
namespace {

constexpr std::string_view kSmall =
    R"({"penstock_routing":1,"model":"tiny","layers":3,"experts":8,"top_k":2}
{"prompt":5,"generated":0,"experts":[[0,1,7],[],[2,3]]}
{"prompt":0,"generated":1,"experts":[[1,5],[],[0,3]]}
)";

std::vector<int> experts_of(const RoutingRecord& record, size_t visit) {
  const auto experts = record.experts(record.visits()[visit]);
  return {experts.begin(), experts.end()};
}

std::string error_of(std::string_view text) {
  const auto record = RoutingRecord::parse(text);
  return record ? "" : record.error().message;
}

TEST(RoutingRecord, WhatIsWrittenIsRead) {
  const auto record = RoutingRecord::parse(kSmall);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->shape(),
            (RoutingRecord::Shape{.model = "tiny", .n_layers = 3, .n_experts = 8, .top_k = 2}));
  ASSERT_EQ(record->steps().size(), 2u);
  EXPECT_TRUE(record->steps()[0].is_prefill());
  EXPECT_FALSE(record->steps()[1].is_prefill());
  ASSERT_EQ(record->visits().size(), 4u);  // the layer in the middle is dense
  EXPECT_EQ(record->visits(record->steps()[1])[1].layer, 2);
  EXPECT_EQ(experts_of(*record, 0), (std::vector{0, 1, 7}));
  EXPECT_EQ(experts_of(*record, 3), (std::vector{0, 3}));
  EXPECT_EQ(record->n_uses(), 9u);
  EXPECT_EQ(record->n_experts(), 16);
  EXPECT_EQ(record->text(), kSmall);
}

TEST(RoutingRecord, MistakesSayInWhichLine) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text(kSmall);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "line 1: no routing record"},
      {"[1,2]", "line 1: no routing record: expected a JSON object"},
      {with("penstock_routing\":1", "penstock_routing\":2"), "penstock_routing is 2, expected"},
      {with("\"layers\":3", "\"layers\":0"), "line 1: no routing record: layers is 0, expected"},
      {with("\"layers\":3", "\"layers\":99999999999999999999"), "layers is"},
      {with("\"layers\":3,\"experts\":8", "\"layers\":4096,\"experts\":65536"),
       "more than 1048576"},
      {with("\"top_k\":2", "\"top_k\":9"), "top_k is 9, expected a whole number from 1 to 8"},
      {with("\"top_k\":2", "\"top_k\":2,\"colour\":3"), "there is no field colour"},
      {with("\"tiny\"", "7"), "model is no string"},
      {with("[2,3]]", "[2,3]"), "line 2: "},
      {with("\"prompt\":5", "\"prompt\":-1"), "line 2: prompt is -1, expected"},
      {with("\"prompt\":5", "\"prompt\":18446744073709551615"), "line 2: prompt is"},
      {with("\"generated\":1,", ""), "line 3: generated is missing"},
      {with("[[1,5],[],[0,3]]", "[[1,5],[]]"), "line 3: experts is no list of 3 layers' lists"},
      {with("[1,5]", "[1,8]"), "line 3: an expert of experts[0] is 8, expected a whole number"},
      {with("[1,5]", "[5,1]"), "line 3: experts[0] has 1 behind 5, expected ascending"},
      {with("[1,5]", "[1,1]"), "line 3: experts[0] has 1 behind 1, expected ascending"},
      {with("[1,5]", "[1.5]"), "line 3: an expert of experts[0] is 1.5"},
      {with("[1,5]", "[[[1]]]"), "line 3: "},
      {with("[1,5]", "5"), "line 3: experts[0] is no list"},
      {std::string(kSmall) + "\n", "line 4: "},
      {R"({"penstock_routing":1,"layers":3,"experts":8,"top_k":2})", "no step that visits"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_NE(error_of(text).find(words), std::string::npos) << error_of(text) << "\n" << text;
  }
}

// Any bytes are a record, which is then written as it is read, or an error.
TEST(RoutingRecord, DamagedBytesAreARecordOrAnError) {
  constexpr uint32_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  int n_records = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text(kSmall);
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
      if (text.empty()) break;
    }
    const auto record = RoutingRecord::parse(text);
    if (!record) {
      EXPECT_FALSE(record.error().message.empty());
      continue;
    }
    ++n_records;
    const auto again = RoutingRecord::parse(record->text());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *record);
  }
  EXPECT_GT(n_records, 20);
}

TEST(RoutingRecord, AFileThatIsNoneIsNamed) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("penstock_routing_{}", ::getpid());
  EXPECT_FALSE(RoutingRecord::read(path));
  std::ofstream(path) << kSmall << "x\n";
  const auto damaged = RoutingRecord::read(path);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().message.find(path.string() + ": line 4: "), 0u);
  std::ofstream(path) << kSmall;
  EXPECT_EQ(RoutingRecord::read(path).value(), RoutingRecord::parse(kSmall).value());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace penstock
