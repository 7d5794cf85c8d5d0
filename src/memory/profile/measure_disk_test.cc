#include "memory/profile/measure_disk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/units.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

constexpr DiskEffort kLeast = {.file_bytes = 64 * kMiB, .write_seconds = 0, .read_seconds = 0};

TEST(MeasureDisk, FindsEveryRateAndLeavesNothing) {
  const FakeRoot folder;
  std::set<std::string> stages;
  bool has_named_files = false;
  const auto measured = measure_disk(folder.path(), kLeast, [&](const ProgressUpdate& news) {
    stages.insert(std::string(news.stage));
    has_named_files |= !std::filesystem::is_empty(folder.path());
  });
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->file_bytes, 64 * kMiB);
  EXPECT_GT(measured->rates.sequential_gb_s.value_or(0), 0);
  EXPECT_GT(measured->rates.random_gb_s.value_or(0), 0);
  EXPECT_GT(measured->rates.small_reads_a_s.value_or(0), 0);
  EXPECT_EQ(stages.size(), 4u);
  EXPECT_FALSE(has_named_files);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeasureDisk, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const auto measured = measure_disk("/no/such/folder", kLeast, [](const ProgressUpdate&) {});
  ASSERT_FALSE(measured);
  EXPECT_NE(measured.error().message.find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace penstock
