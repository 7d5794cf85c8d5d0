#include "os/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace penstock {
namespace {

namespace fs = std::filesystem;

class Output : public ::testing::Test {
 protected:
  Output() : folder_(fs::path(::testing::TempDir()) / ("output_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Output() override { fs::remove_all(folder_); }

  std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(Output, AppendsAndCounts) {
  auto file = OutputFile::create(folder_ / "a");
  ASSERT_TRUE(file) << file.error().text();
  ASSERT_TRUE(file->append(std::as_bytes(std::span("pen", 3))));
  ASSERT_TRUE(file->append({}));
  ASSERT_TRUE(file->append(std::as_bytes(std::span("stock", 5))));
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(file->bytes(), 8U);
  EXPECT_EQ(text_of(folder_ / "a"), "penstock");
}

TEST_F(Output, AnExistingFileIsKept) {
  std::ofstream(folder_ / "a") << "old";
  const auto file = OutputFile::create(folder_ / "a");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kIo);
  EXPECT_THAT(file.error().text(), ::testing::HasSubstr((folder_ / "a").string()));
  EXPECT_EQ(text_of(folder_ / "a"), "old");
}

// A file size limit makes the kernel refuse a write as a full disk does.
TEST_F(Output, ARefusedWriteIsAnError) {
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto on_signal = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = OutputFile::create(folder_ / "a");
  const auto written = file->append(std::vector<std::byte>(10'000));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, on_signal);

  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::kIo);
  EXPECT_THAT(written.error().text(), ::testing::HasSubstr("cannot write"));
  EXPECT_EQ(file->bytes(), 4096U) << "counts what was written";
}

TEST_F(Output, AWholeFileReplacesWhatWasThere) {
  std::ofstream(folder_ / "a") << "something longer";
  ASSERT_TRUE(write_whole_file(folder_ / "a", "short"));
  EXPECT_EQ(text_of(folder_ / "a"), "short");
  const auto refused = write_whole_file(folder_ / "no/such/file", "x");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("no/such/file"));
  EXPECT_FALSE(write_whole_file("/dev/full", "x")) << "a full disk";
}

TEST_F(Output, OneHolderAtATime) {
  const fs::path path = folder_ / "lock";
  EXPECT_EQ(FileLock::try_acquire(path, FileLock::Mode::kExistingOnly).error().kind,
            ErrorKind::kNotFound);
  {
    const auto first = FileLock::try_acquire(path, FileLock::Mode::kCreate);
    ASSERT_TRUE(first);
    ASSERT_TRUE(first->has_value());
    const auto second = FileLock::try_acquire(path, FileLock::Mode::kExistingOnly);
    ASSERT_TRUE(second);
    EXPECT_FALSE(second->has_value());
  }
  const auto third = FileLock::try_acquire(path, FileLock::Mode::kExistingOnly);
  ASSERT_TRUE(third && third->has_value());
  EXPECT_TRUE((*third)->is_at(path));
  fs::remove(path);
  EXPECT_FALSE((*third)->is_at(path)) << "removed";
  std::ofstream(path) << "another";
  EXPECT_FALSE((*third)->is_at(path)) << "replaced";
}

TEST_F(Output, AKilledHolderFreesTheLock) {
  const fs::path path = folder_ / "lock";
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = FileLock::try_acquire(path, FileLock::Mode::kCreate);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::kExistingOnly)->has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::try_acquire(path, FileLock::Mode::kExistingOnly)->has_value());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Output, FoldersExchangeNames) {
  fs::create_directories(folder_ / "a");
  fs::create_directories(folder_ / "b");
  std::ofstream(folder_ / "a" / "new") << "1";
  std::ofstream(folder_ / "b" / "old") << "2";
  const auto swapped = swap_names(folder_ / "a", folder_ / "b");
  if (!swapped && swapped.error().kind == ErrorKind::kUnsupported) GTEST_SKIP();
  ASSERT_TRUE(swapped) << swapped.error().text();
  EXPECT_TRUE(fs::exists(folder_ / "b" / "new"));
  EXPECT_TRUE(fs::exists(folder_ / "a" / "old"));
  EXPECT_EQ(swap_names(folder_ / "a", folder_ / "none").error().kind, ErrorKind::kNotFound);
}

TEST_F(Output, FoldersAndDisksAnswer) {
  EXPECT_TRUE(sync_folder(folder_));
  EXPECT_GT(free_disk_bytes(folder_).value_or(0), 0U);
  EXPECT_EQ(sync_folder(folder_ / "none").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(free_disk_bytes(folder_ / "none").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace penstock
