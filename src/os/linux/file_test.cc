#include "os/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace penstock {
namespace {

// A folder of the test's own, removed at its end.
class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / (std::string("file_test_") + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(FileTest, ReadsExactlyWhatWasAsked) {
  const auto file = File::open(write("a", "0123456789"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size(), 10u);
  std::vector<std::byte> out(4);
  ASSERT_TRUE(file->read_exact(3, out));
  EXPECT_EQ(text_of(out), "3456");
  ASSERT_TRUE(file->read_exact(6, out)) << "the last four";
  EXPECT_EQ(text_of(out), "6789");
}

TEST_F(FileTest, ShortReadNamesFileWantedAndGot) {
  const auto file = File::open(write("short", "0123456789"));
  ASSERT_TRUE(file);
  std::vector<std::byte> out(4);
  const auto read = file->read_exact(7, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kIo);
  EXPECT_EQ(read.error().message,
            (folder_ / "short").string() + " is too short: wanted 4 bytes from offset 7, got 3");
  EXPECT_FALSE(file->read_exact(1'000'000, out));
}

TEST_F(FileTest, AMappingTellsWhatThePageCacheHolds) {
  const std::string text(300'000, 'x');
  const auto path = write("cached", text);
  const auto mapping = Mapping::open(path).value();
  EXPECT_TRUE(mapping.is_cached(0, text.size())) << "it was just written";
  EXPECT_TRUE(mapping.is_cached(5000, 1));
  EXPECT_FALSE(mapping.is_cached(1, text.size())) << "it ends earlier";
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  if (mapping.is_cached(0, 4096)) GTEST_SKIP() << "the page cache does not forget";
  EXPECT_FALSE(mapping.is_cached(0, text.size()));
  std::vector<std::byte> out(1);
  ASSERT_TRUE(File::open(path)->read_exact(0, out));
  EXPECT_TRUE(mapping.is_cached(0, 4096));
}

TEST_F(FileTest, WhatIsNoFileIsRefused) {
  const auto missing = File::open(folder_ / "missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(missing.error().message.find("missing"), std::string::npos);
  EXPECT_FALSE(File::open(folder_));
  // A pipe without a writer: must not wait for one.
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(File::open(folder_ / "pipe"));
}

TEST_F(FileTest, MovedFilesStayOpenOnce) {
  auto first = File::open(write("a", "abc"));
  auto second = File::open(write("b", "xyz"));
  ASSERT_TRUE(first && second);
  File moved = std::move(*first);
  moved = std::move(*second);
  std::vector<std::byte> out(3);
  ASSERT_TRUE(moved.read_exact(0, out));
  EXPECT_EQ(text_of(out), "xyz");
  EXPECT_EQ(moved.path(), folder_ / "b");
}

TEST_F(FileTest, MapsTheWholeFileEvenAnEmptyOne) {
  const auto mapping = Mapping::open(write("a", "weights"));
  ASSERT_TRUE(mapping);
  EXPECT_EQ(text_of(mapping->bytes()), "weights");
  const auto empty = Mapping::open(write("empty", ""));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
  EXPECT_FALSE(Mapping::open(folder_ / "missing"));
}

TEST_F(FileTest, WholeFilesAreBoundedExactly) {
  const auto path = write("a", "0123456789");
  const auto whole = read_whole_file(path, 10);
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole, "0123456789");
  const auto refused = read_whole_file(path, 9);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("expected at most 9 B"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace penstock
