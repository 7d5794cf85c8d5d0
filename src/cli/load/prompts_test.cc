#include "cli/load/prompts.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace penstock {
namespace {

using testing::HasSubstr;

int64_t n_words(const std::string& text) { return std::ranges::count(text, ' ') + 1; }

WordPrompts prompts(std::string_view lengths, double shared_part, uint64_t row = 0) {
  return {.sizing = {.overhead = 20, .per_word = 1.25},
          .prompt_tokens = parse_lengths(lengths, "").value(),
          .output_tokens = parse_lengths("uniform:5-9", "").value(),
          .shared_part = shared_part,
          .seed = 3,
          .row = row};
}

TEST(WordPrompts, HaveTheWantedLengthAsTheServerCounts) {
  EXPECT_EQ(n_words(prompts("120", 0).request(0).prompt), 80);  // 20 + 80 * 1.25
  EXPECT_EQ(n_words(prompts("20", 0).request(0).prompt), 1);    // never empty
}

TEST(WordPrompts, TheSamePlaceHasTheSamePromptAndNoOtherHas) {
  const WordPrompts all = prompts("120", 0);
  EXPECT_EQ(all.request(7).prompt, all.request(7).prompt);
  EXPECT_NE(all.request(7).prompt, all.request(8).prompt);
  EXPECT_NE(all.request(7).prompt, prompts("120", 0, /*row=*/1).request(7).prompt);
}

TEST(WordPrompts, ShareWhatTheyShould) {
  const WordPrompts half = prompts("uniform:60-120", 0.5);
  const auto common = [](const std::string& a, const std::string& b) {
    const auto at = std::ranges::mismatch(a, b).in1;
    return std::count(a.begin(), at, ' ');
  };
  for (int64_t i = 0; i < 20; ++i) {
    const std::string a = half.request(i).prompt;
    const std::string b = half.request(i + 1).prompt;
    const int64_t shared = std::min(n_words(a), n_words(b)) / 2;
    EXPECT_GE(common(a, b), shared) << i;
    EXPECT_LE(common(a, b), shared + 3) << i;  // what follows is random, and may agree a little
  }
  const WordPrompts whole = prompts("120", 1);
  EXPECT_EQ(whole.request(0).prompt, whole.request(1).prompt);
  EXPECT_NE(whole.request(0).prompt, prompts("120", 1, /*row=*/1).request(0).prompt);
}

TEST(Dataset, TakesTheFirstTurns) {
  const auto requests = parse_dataset(R"([
      {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "12345678"},
                         {"from": "human", "value": "Really?"}]},
      {"conversations": [{"from": "user", "value": "a"}, {"from": "assistant", "value": "b"}]},
      {"conversations": [{"from": "gpt", "value": "a"}, {"from": "human", "value": "b"}]},
      {"conversations": [{"from": "human", "value": "alone"}]},
      {"conversations": [{"from": "human", "value": ""}, {"from": "gpt", "value": "b"}]},
      {"conversations": [{"from": "human", "value": 7}, {"from": "gpt"}]},
      {"conversations": [7, 8]}, {"conversations": 7}, 7])",
                                      "f.json")
                            .value();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prompt, "Why?");
  EXPECT_EQ(requests[0].max_tokens, 2);
  EXPECT_EQ(requests[1].max_tokens, 1);
}

TEST(Dataset, AFileThatIsNoneIsNamed) {
  for (const char* text : {"{}", "[]", "[1]", "7"}) {
    EXPECT_THAT(parse_dataset(text, "f.json").error().message, HasSubstr("f.json: found no conv"));
  }
  EXPECT_THAT(parse_dataset("[", "f.json").error().message, HasSubstr("f.json: invalid JSON"));
}

TEST(Dataset, TheSeedDecidesTheOrder) {
  std::vector<LoadRequest> requests;
  for (int i = 0; i < 50; ++i) requests.push_back({.max_tokens = i});
  const auto order = [&](uint64_t seed) {
    auto shuffled = requests;
    shuffle(shuffled, seed);
    std::vector<int64_t> all;
    for (const LoadRequest& request : shuffled) all.push_back(request.max_tokens);
    return all;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  auto sorted = order(1);
  std::ranges::sort(sorted);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace penstock
