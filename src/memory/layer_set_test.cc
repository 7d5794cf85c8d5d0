#include "memory/layer_set.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace penstock {
namespace {

// The chosen layers, with a "!" behind them where there is a warning; or "refused".
std::string chosen(std::string_view text, int n_layers) {
  const auto selection = select_layers(text, n_layers, "--cpu-layers");
  if (!selection) return "refused";
  return selection->layers.text() + (selection->warning.empty() ? "" : "!");
}

TEST(SelectLayers, IdsAndRangesAreListsEvenOfOne) {
  EXPECT_EQ(chosen("3,7,11", 12), "3,7,11");
  EXPECT_EQ(chosen("7,", 12), "7,");
  EXPECT_EQ(chosen("0-5", 12), "0-5");
  EXPECT_EQ(chosen("5-5", 12), "5,");
  EXPECT_EQ(chosen("11, 0-2,1-4,3", 12), "0-4,11");
}

TEST(SelectLayers, ANumberAloneIsACountSpreadEvenly) {
  EXPECT_EQ(chosen("0", 12), "0");
  EXPECT_EQ(chosen("1", 12), "6,");
  EXPECT_EQ(chosen("2", 12), "3,9");
  EXPECT_EQ(chosen("4", 12), "1,4,7,10");
  EXPECT_EQ(chosen(" 12 ", 12), "0-11");
  EXPECT_EQ(chosen("15", 62),
            "2,6,10,14,18,22,26,31,35,39,43,47,51,55,59");  // steps of four and, once, five
}

TEST(SelectLayers, ANumberWithAPointIsAPart) {
  EXPECT_EQ(chosen("0.25", 12), chosen("3", 12));
  EXPECT_EQ(chosen(".5", 12), chosen("6", 12));
  EXPECT_EQ(chosen("1.0", 12), "0-11");
  EXPECT_EQ(chosen("0.0", 12), "0");
  EXPECT_EQ(chosen("0.001", 12), chosen("1", 12));
}

TEST(SelectLayers, HeadAndTailMixWithIds) {
  EXPECT_EQ(chosen("head:4,tail:4", 12), "0-3,8-11");
  EXPECT_EQ(chosen("head:1", 12), "0,");
  EXPECT_EQ(chosen("tail:2,5,head:0", 12), "5,10-11");
  EXPECT_EQ(chosen("head:8,tail:8", 12), "0-11");
}

TEST(SelectLayers, WhatLiesBehindTheLastLayerIsLeftOutWithAWarning) {
  EXPECT_EQ(chosen("10,11,12", 12), "10-11!");
  EXPECT_EQ(chosen("8-99", 12), "8-11!");
  EXPECT_EQ(chosen("99,", 12), "0!");
  EXPECT_EQ(chosen("13", 12), "0-11!");
  EXPECT_EQ(chosen("1.5", 12), "0-11!");
  EXPECT_EQ(chosen("head:13", 12), "0-11!");
  EXPECT_EQ(chosen("tail:13", 12), "0-11!");
  EXPECT_EQ(chosen("0-2147483647", 12), "0-11!");
  EXPECT_EQ(select_layers("8-99", 12, "--cpu-layers")->warning,
            "--cpu-layers 8-99 chooses more than there is: the model has 12 layers, 0-11");
}

TEST(SelectLayers, WhatChoosesNothingIsRefused) {
  for (const char* text :
       {"",        " ",        ",",      "3,,7",     ",3",           "a",     "3;7",
        "5-3",     "-3",       "3-",     "3-5-7",    "1e3",          "nan",   "inf",
        "0.5.1",   "-0.5",     "0.5,",   "3,0.5",    "head",         "head:", "head:x",
        "head:-1", "middle:3", "Head:3", "tail:1.5", "99999999999,", "25%"}) {
    EXPECT_EQ(chosen(text, 12), "refused") << text;
  }
  EXPECT_EQ(
      select_layers("5-3", 12, "--cpu-layers").error().message,
      "--cpu-layers \"5-3\" chooses no layers: expected ids (3,7,11), ranges (0-5), head:4 or "
      "tail:4, with commas between, or alone a count (8) or a part (0.25) of the layers");
}

TEST(SelectLayers, EveryCountIsMetAndEven) {
  for (int n_layers = 1; n_layers <= 100; ++n_layers) {
    for (int count = 1; count <= n_layers; ++count) {
      const auto selection = select_layers(std::to_string(count), n_layers, "--cpu-layers");
      ASSERT_TRUE(selection);
      ASSERT_EQ(selection->layers.count(), count) << n_layers;
      int last = -1;
      for (int layer = 0; layer < n_layers; ++layer) {
        if (!selection->layers.contains(layer)) continue;
        ASSERT_LE(layer - last, n_layers / count + 1) << count << " of " << n_layers;
        last = layer;
      }
    }
  }
}

TEST(LayerSet, ItsTextReadsBackAsTheSameLayers) {
  std::mt19937 random(20261130);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 1000; ++round) {
    LayerSet layers(1 + static_cast<int>(random() % 70));
    const auto density = random() % 5;
    for (int layer = 0; layer < layers.n_layers(); ++layer) {
      if (random() % 4 < density) layers.add(layer);
    }
    const auto read = select_layers(layers.text(), layers.n_layers(), "--cpu-layers");
    ASSERT_TRUE(read) << layers.text();
    ASSERT_EQ(read->layers, layers) << layers.text();
    ASSERT_EQ(read->warning, "");
  }
}

TEST(CheckDisjoint, AContradictionNamesBothFlagsAndTheLayers) {
  const auto layers = [](const char* text) { return select_layers(text, 12, "")->layers; };
  EXPECT_TRUE(check_disjoint(layers("0-3"), "--a", layers("4-11"), "--b"));
  EXPECT_TRUE(check_disjoint(layers("0"), "--a", layers("0"), "--b"));
  const auto both = check_disjoint(layers("0-5"), "--cpu-layers", layers("4-8"), "--gpu-layers");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(both.error().message,
            "--cpu-layers and --gpu-layers both choose layers 4-5: leave them out of one");
}

}  // namespace
}  // namespace penstock
