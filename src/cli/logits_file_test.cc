#include "cli/logits_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/json.h"
#include "cli/input.h"

namespace penstock {
namespace {

std::filesystem::path fresh_path(const char* name) {
  const auto path = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove(path);
  return path;
}

// Read back as the format's page says, by hand.
TEST(LogitsFile, IsSafetensors) {
  const auto path = fresh_path("whole.safetensors");
  const std::vector<int64_t> rows = {2, 0, 1};
  auto file = LogitsFile::create(path, rows, 3);
  ASSERT_TRUE(file);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  ASSERT_TRUE(file->write(std::span(values).first(3)));
  ASSERT_TRUE(file->write(std::span(values).subspan(3)));
  EXPECT_FALSE(std::filesystem::exists(path)) << "visible before it is whole";
  ASSERT_TRUE(file->close());

  const std::string bytes = *read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0u);
  const Json header = Json::parse(bytes.substr(8, length));
  EXPECT_EQ(header, Json::parse(R"({
    "p0": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "p1": {"dtype": "F32", "shape": [0, 3], "data_offsets": [24, 24]},
    "p2": {"dtype": "F32", "shape": [1, 3], "data_offsets": [24, 36]}})"));
  ASSERT_EQ(bytes.size(), 8 + length + 36);
  std::vector<float> written(values.size());
  std::memcpy(written.data(), bytes.data() + 8 + length, 36);
  EXPECT_EQ(written, values);
}

TEST(LogitsFile, AnUnfinishedOneLeavesNothing) {
  const auto path = fresh_path("unfinished.safetensors");
  const std::vector<int64_t> rows = {1};
  {
    ASSERT_TRUE(LogitsFile::create(path, rows, 3));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
}

TEST(LogitsFile, SaysWhereItCannotWrite) {
  const auto file = LogitsFile::create("/no/such/folder/x", std::vector<int64_t>{1}, 3);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "cannot write /no/such/folder/x: No such file or directory");
}

TEST(LogitsFile, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const auto path = fresh_path("full");
  std::filesystem::remove(path.string() + ".partial");
  std::filesystem::create_symlink("/dev/full", path.string() + ".partial");
  auto file = LogitsFile::create(path, std::vector<int64_t>{4096}, 16);
  const std::vector<float> values(4096 * 16);
  const bool written = file && file->write(values) && file->close();
  EXPECT_FALSE(written);
}

}  // namespace
}  // namespace penstock
