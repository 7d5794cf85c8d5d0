#include "memory/weight_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "base/integers.h"
#include "base/units.h"
#include "os/failing_reads_test.h"
#include "os/file.h"
#include "os/known_file_test.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr size_t kFileBytes = 9 * kMiB + 1234;

// Has the page cache forget a file, where it can.
void forget(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

// Has it remember a part.
void remember(const std::filesystem::path& path, FileRun part) {
  std::vector<std::byte> bytes(part.end - part.begin);
  ASSERT_TRUE(File::open(path)->read_exact(part.begin, bytes));
}

std::vector<FileRun> random_runs(std::mt19937& random) {
  const auto up_to = [&](uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n)(random);
  };
  std::vector<FileRun> runs;
  uint64_t at = up_to(10'000);
  while (at < kFileBytes) {
    const uint64_t most = up_to(2) == 0 ? 5 * kMiB : 6000;
    const uint64_t end = std::min<uint64_t>(kFileBytes, at + 1 + up_to(most));
    runs.push_back({at, end});
    at = end + 1 + up_to(most);
  }
  return runs;
}

class WeightReaderTest : public testing::Test {
 protected:
  const std::filesystem::path& path() const { return known_.file().path(); }

  // A buffer for the file, and what is wanted of it.
  FileParts parts(std::vector<FileRun> runs) {
    memory_ =
        AnonymousMemory::reserve(round_up(kFileBytes, kDirectAlignment), OsPages::kHuge).value();
    return {.path = path(), .runs = std::move(runs), .memory = memory_.bytes()};
  }
  void expect_right(const FileParts& read) const {
    for (const auto& [begin, end] : read.runs) {
      EXPECT_EQ(as_text(read.memory.subspan(begin, end - begin)),
                known_.text().substr(begin, end - begin))
          << begin << " to " << end;
    }
  }

  KnownFile known_{kFileBytes};
  AnonymousMemory memory_;
};

uint64_t bytes_of(std::span<const FileRun> runs) {
  uint64_t bytes = 0;
  for (const auto& [begin, end] : runs) bytes += end - begin;
  return bytes;
}

// Whatever the page cache has of the file, with and without a pool.
TEST_F(WeightReaderTest, RandomRunsAreRightWhereverTheyCameFrom) {
  const auto pool = Pool::make({.n_threads = 2}).value();
  const auto queue = ReadQueue::make().value();
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    if (seed % 3 != 0) forget(path());
    if (seed % 3 == 1) remember(path(), {3 * kMiB + 5, 6 * kMiB});
    const FileParts wanted = parts(random_runs(random));
    const auto counts = read_parts({&wanted, 1}, *queue, seed % 2 == 0 ? pool.get() : nullptr, {});
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_GE(counts->cached_bytes + counts->disk_bytes, bytes_of(wanted.runs));
    expect_right(wanted);
  }
}

TEST_F(WeightReaderTest, WhatIsCachedIsCopiedAndTheRestComesFromDisk) {
  const auto queue = ReadQueue::make().value();
  const FileParts wanted = parts({{0, kFileBytes}});
  remember(path(), {0, kFileBytes});
  const auto warm = read_parts({&wanted, 1}, *queue, nullptr, {});
  if (warm->cached_bytes == 0) GTEST_SKIP() << "this file system does not say what is cached";
  EXPECT_EQ(*warm, (ReadCounts{.cached_bytes = kFileBytes}));
  forget(path());
  const auto cold = read_parts({&wanted, 1}, *queue, nullptr, {});
  if (cold->cached_bytes == kFileBytes) GTEST_SKIP() << "the page cache does not forget";
  EXPECT_EQ(cold->cached_bytes + cold->disk_bytes, kFileBytes);
  expect_right(wanted);
}

TEST_F(WeightReaderTest, ProgressGrowsToTheWhole) {
  const auto queue = ReadQueue::make().value();
  const FileParts wanted = parts({{100, 5 * kMiB}, {6 * kMiB, kFileBytes}});
  forget(path());
  uint64_t last = 0;
  ASSERT_TRUE(read_parts({&wanted, 1}, *queue, nullptr, [&](const ProgressUpdate& update) {
    EXPECT_GE(update.done, last);
    EXPECT_EQ(update.total, bytes_of(wanted.runs));
    last = update.done;
  }));
  EXPECT_EQ(last, bytes_of(wanted.runs));
}

TEST_F(WeightReaderTest, AFileThatIsGoneOrTooShortIsNamed) {
  const auto queue = ReadQueue::make().value();
  FileParts wanted = parts({{0, kFileBytes}});
  wanted.path += ".gone";
  EXPECT_EQ(read_parts({&wanted, 1}, *queue, nullptr, {}).error().kind, ErrorKind::kNotFound);
  wanted = parts({{0, kFileBytes}});
  std::filesystem::resize_file(path(), 5 * kMiB);
  const auto read = read_parts({&wanted, 1}, *queue, nullptr, {});
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("changed while loading"), std::string::npos);
}

TEST_F(WeightReaderTest, EveryReadThatFailsIsOneErrorWithTheFile) {
  const FileParts wanted = parts({{0, kFileBytes}});
  for (int fails = 0;; ++fails) {
    forget(path());
    auto backend = std::make_unique<FailingReads>(fails);
    const FailingReads& counts = *backend;
    ReadQueue queue(std::move(backend), {});
    const auto read = read_parts({&wanted, 1}, queue, nullptr, {});
    if (counts.n_started() == 0) GTEST_SKIP() << "the page cache does not forget";
    if (counts.n_started() <= fails) {
      EXPECT_TRUE(read) << "read " << fails << " was never asked for";
      EXPECT_GT(fails, 8) << "9 MiB are more pieces than that";
      break;
    }
    ASSERT_FALSE(read) << "read " << fails;
    EXPECT_NE(read.error().message.find(path().string()), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
