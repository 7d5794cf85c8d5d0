#include "memory/weight_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
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

  // Of `files`, the only one: wants these runs in a buffer for the whole file.
  void want(const std::vector<FileRun>& runs) {
    memory_ =
        AnonymousMemory::reserve(round_up(kFileBytes, kDirectAlignment), OsPages::kHuge).value();
    wanted_.clear();
    for (const FileRun& run : without_shared_blocks(runs)) {
      const DirectRange range = direct_range_around(run.begin, run.end - run.begin);
      wanted_.push_back({.run = run, .memory = memory_.bytes().subspan(range.offset, range.bytes)});
    }
  }
  Result<ReadCounts> read(ReadQueue& queue, Pool* pool = nullptr, const ReadHooks& hooks = {}) {
    return read_runs({&file_, 1}, wanted_, queue, pool, hooks);
  }
  void expect_right(std::span<const FileRun> runs) const {
    for (const auto& [begin, end] : runs) {
      EXPECT_EQ(as_text(memory_.bytes().subspan(begin, end - begin)),
                known_.text().substr(begin, end - begin))
          << begin << " to " << end;
    }
  }

  KnownFile known_{kFileBytes};
  std::filesystem::path file_ = path();
  AnonymousMemory memory_;
  std::vector<WantedRun> wanted_;
};

uint64_t bytes_of(std::span<const FileRun> runs) {
  uint64_t bytes = 0;
  for (const auto& [begin, end] : runs) bytes += end - begin;
  return bytes;
}

// Whatever the page cache has of the file, with and without a pool; and each run is told of once,
// when its bytes are there.
TEST_F(WeightReaderTest, RandomRunsAreRightWhereverTheyCameFrom) {
  const auto pool = Pool::make({.n_threads = 2}).value();
  const auto queue = ReadQueue::make().value();
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    if (seed % 3 != 0) forget(path());
    if (seed % 3 == 1) remember(path(), {3 * kMiB + 5, 6 * kMiB});
    const std::vector<FileRun> runs = random_runs(random);
    want(runs);
    std::vector<size_t> done;
    const auto tell = [&](size_t run) {
      done.push_back(run);
      expect_right({&wanted_[run].run, 1});
    };
    const auto counts = read(*queue, seed % 2 == 0 ? pool.get() : nullptr, {.done = tell});
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_GE(counts->cached_bytes + counts->disk_bytes, bytes_of(runs));
    expect_right(runs);
    std::ranges::sort(done);
    std::vector<size_t> each(wanted_.size());
    std::iota(each.begin(), each.end(), size_t{0});
    EXPECT_EQ(done, each);
  }
}

TEST_F(WeightReaderTest, RunsThatShareABlockOfTheDiskAreOne) {
  EXPECT_EQ(without_shared_blocks(std::vector<FileRun>{
                {1, 10}, {20, 4096}, {4096, 5000}, {8191, 8193}, {20'000, 20'001}}),
            (std::vector<FileRun>{{1, 4096}, {4096, 8193}, {20'000, 20'001}}));
}

TEST_F(WeightReaderTest, WhatIsCachedIsCopiedAndTheRestComesFromDisk) {
  const auto queue = ReadQueue::make().value();
  const std::vector<FileRun> whole = {{0, kFileBytes}};
  want(whole);
  remember(path(), whole[0]);
  const auto warm = read(*queue);
  if (warm->cached_bytes == 0) GTEST_SKIP() << "this file system does not say what is cached";
  EXPECT_EQ(*warm, (ReadCounts{.cached_bytes = kFileBytes}));
  forget(path());
  const auto cold = read(*queue);
  if (cold->cached_bytes == kFileBytes) GTEST_SKIP() << "the page cache does not forget";
  EXPECT_EQ(cold->cached_bytes + cold->disk_bytes, kFileBytes);
  expect_right(whole);
}

TEST_F(WeightReaderTest, ProgressGrowsToTheWhole) {
  const auto queue = ReadQueue::make().value();
  const std::vector<FileRun> runs = {{100, 5 * kMiB}, {6 * kMiB, kFileBytes}};
  want(runs);
  forget(path());
  uint64_t last = 0;
  const auto progress = [&](const ProgressUpdate& update) {
    EXPECT_GE(update.done, last);
    EXPECT_EQ(update.total, bytes_of(runs));
    last = update.done;
  };
  ASSERT_TRUE(read(*queue, nullptr, {.progress = progress}));
  EXPECT_EQ(last, bytes_of(runs));
}

TEST_F(WeightReaderTest, AFileThatIsGoneOrTooShortIsNamed) {
  const auto queue = ReadQueue::make().value();
  want({{0, kFileBytes}});
  file_ += ".gone";
  EXPECT_EQ(read(*queue).error().kind, ErrorKind::kNotFound);
  file_ = path();
  std::filesystem::resize_file(path(), 5 * kMiB);
  const auto cut = read(*queue);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("changed while loading"), std::string::npos);
}

TEST_F(WeightReaderTest, EveryReadThatFailsIsOneErrorWithTheFile) {
  want({{0, kFileBytes}});
  for (int fails = 0;; ++fails) {
    forget(path());
    auto backend = std::make_unique<FailingReads>(fails);
    const FailingReads& counts = *backend;
    ReadQueue queue(std::move(backend), {});
    const auto failed = read(queue);
    if (counts.n_started() == 0) GTEST_SKIP() << "the page cache does not forget";
    if (counts.n_started() <= fails) {
      EXPECT_TRUE(failed) << "read " << fails << " was never asked for";
      EXPECT_GT(fails, 8) << "9 MiB are more pieces than that";
      break;
    }
    ASSERT_FALSE(failed) << "read " << fails;
    EXPECT_NE(failed.error().message.find(path().string()), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
