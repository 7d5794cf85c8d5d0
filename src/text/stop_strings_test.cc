#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock {
namespace {

StopStrings make(std::vector<std::string> stops) {
  auto made = StopStrings::create(stops);
  EXPECT_TRUE(made) << made.error().text();
  return *std::move(made);
}

// What is shown after each piece, and at last by finish().
std::vector<std::string> feed(StopStrings& stops, const std::vector<std::string>& pieces) {
  std::vector<std::string> shown;
  for (const std::string& piece : pieces) shown.push_back(stops.push(piece));
  shown.push_back(stops.finish());
  return shown;
}

TEST(StopStrings, AcrossPieces) {
  StopStrings stops = make({"beta gamma"});
  EXPECT_EQ(feed(stops, {"alpha", " beta", " gam", "ma", " delta"}),
            (std::vector<std::string>{"alpha", " ", "", "", "", ""}));
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "beta gamma");
}

TEST(StopStrings, SplitAtTheLastByte) {
  StopStrings stops = make({"\nUser:"});
  EXPECT_EQ(feed(stops, {"hi", "\nUser", ":"}), (std::vector<std::string>{"hi", "", "", ""}));
  EXPECT_TRUE(stops.stopped());
}

TEST(StopStrings, InsideOnePieceWithTextAfterIt) {
  StopStrings stops = make({"STOP"});
  EXPECT_EQ(feed(stops, {"before STOP after", "more"}),
            (std::vector<std::string>{"before ", "", ""}));
}

TEST(StopStrings, OnePrefixOfAnotherEndsAtTheShorter) {
  StopStrings stops = make({"beta gamma", "beta"});
  EXPECT_EQ(feed(stops, {"alpha beta", " gamma"}), (std::vector<std::string>{"alpha ", "", ""}));
  EXPECT_EQ(stops.matched(), "beta");
}

TEST(StopStrings, OneTheEndOfAnotherCutsAtTheLonger) {
  StopStrings stops = make({"c", "abc"});
  EXPECT_EQ(feed(stops, {"xab", "c"}), (std::vector<std::string>{"x", "", ""}));
  EXPECT_EQ(stops.matched(), "abc");
}

TEST(StopStrings, OneInsideAnotherEndsBeforeTheInnerOne) {
  StopStrings stops = make({"abcd", "c"});
  EXPECT_EQ(feed(stops, {"xab", "cd"}), (std::vector<std::string>{"x", "ab", ""}));
  EXPECT_EQ(stops.matched(), "c");
}

TEST(StopStrings, WhatCannotBecomeAStopIsShownAtOnce) {
  StopStrings stops = make({"aab"});
  EXPECT_EQ(feed(stops, {"a", "a", "a", "c", "aa"}),
            (std::vector<std::string>{"", "", "a", "aac", "", "aa"}));
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, NoneShowsEverything) {
  StopStrings stops = make({});
  EXPECT_EQ(feed(stops, {"a", "b"}), (std::vector<std::string>{"a", "b", ""}));
}

TEST(StopStrings, RefusesEmptyInvalidAndHugeOnes) {
  for (const std::string& stop : {std::string(), std::string("\xFF"), std::string(65537, 'x')}) {
    const auto made = StopStrings::create(std::vector{std::string("fine"), stop});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(made.error().param, "stop");
  }
}

// The rule said plainly: the shortest beginning of the text that ends with a stop string, without
// the longest such.
std::string expected_text(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopStrings, AnySplitGivesWhatTheRuleSays) {
  std::mt19937 random(34);
  const auto word = [&](size_t max_length) {
    std::string made(1 + random() % max_length, 'a');
    for (char& c : made) c = "abc"[random() % 3];
    return made;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> list(1 + random() % 3);
    for (std::string& stop : list) stop = word(5);
    const std::string text = word(20);
    StopStrings stops = make(list);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t n = std::min<size_t>(random() % 4, text.size() - at);
      shown += stops.push(text.substr(at, n));
      at += n;
      EXPECT_TRUE(expected_text(text, list).starts_with(shown)) << "showed part of a stop string";
    }
    shown += stops.finish();
    EXPECT_EQ(shown, expected_text(text, list)) << "text " << text << ", round " << round;
  }
}

}  // namespace
}  // namespace penstock
