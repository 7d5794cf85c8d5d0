#include "checkpoint/hf_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace penstock {
namespace {

const std::filesystem::path kGolden = PENSTOCK_SOURCE_DIR "/tests/golden";

TEST(HfCheckpoint, EveryGoldenOpens) {
  int n_opened = 0;
  for (const char* kind : {"models", "quantized"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kGolden / kind)) {
      const auto checkpoint = open_checkpoint(entry.path());
      ASSERT_TRUE(checkpoint) << checkpoint.error().message;
      EXPECT_EQ(checkpoint->name, entry.path().filename());
      EXPECT_EQ(checkpoint->generation.eos_ids.front(), 2);
      ++n_opened;
    }
  }
  EXPECT_EQ(n_opened, 7 + 5);
}

}  // namespace
}  // namespace penstock
