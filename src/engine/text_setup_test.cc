#include "engine/text_setup.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/fake_chat.h"

namespace penstock {
namespace {

using Ids = std::vector<int32_t>;

// BC-27
TEST(EndIds, AreTheUnionOfWhatTheFilesSay) {
  TextSetup text = fake_text();
  text.eos_token = "<|im_end|>";
  EXPECT_EQ(end_ids({.eos_ids = {1, 2}}, text), (Ids{1, 2, kImEnd}));
  EXPECT_EQ(end_ids({.eos_ids = {kImEnd, 2}}, text), (Ids{kImEnd, 2})) << "each once";
  EXPECT_EQ(end_ids({}, text), Ids{kImEnd});
}

TEST(EndIds, ATokenizerWithoutThatTokenAddsNothing) {
  TextSetup text = fake_text();
  text.eos_token = "<no such token>";
  EXPECT_EQ(end_ids({.eos_ids = {7}}, text), Ids{7});
  text.eos_token.clear();
  EXPECT_EQ(end_ids({.eos_ids = {7}}, text), Ids{7});
}

}  // namespace
}  // namespace penstock
