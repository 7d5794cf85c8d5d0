// Direct files, and the same reads through every backend this machine has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "os/direct_io.h"
#include "os/fake_root_test.h"
#include "os/known_file_test.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(DirectFile, WhatIsNoFileIsRefused) {
  const FakeRoot folder;
  const auto missing = DirectFile::open(folder.path() / "missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(DirectFile::open(folder.path()));
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(DirectFile::open(folder.path() / "pipe"));
}

TEST(DirectFile, SaysWhatItIs) {
  const FakeRoot folder;
  folder.write("weights", "0123456789");
  const auto file = DirectFile::open(folder.path() / "weights");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->path(), folder.path() / "weights");
  EXPECT_EQ(file->is_direct(), file->note().empty());
}

// Of the queue that a test gets.
struct BackendCase {
  const char* name;
  bool allow_io_uring;
};

class DirectReads : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    auto queue = ReadQueue::make(
        {.depth = 8, .prefetch_depth = 3, .allow_io_uring = GetParam().allow_io_uring});
    ASSERT_TRUE(queue) << queue.error().message;
    if ((*queue)->backend() != GetParam().name) GTEST_SKIP() << (*queue)->note();
    EXPECT_EQ((*queue)->note(), "");
    queue_ = *std::move(queue);
  }

  std::unique_ptr<ReadQueue> queue_;
};

INSTANTIATE_TEST_SUITE_P(Backends, DirectReads,
                         testing::Values(BackendCase{"io_uring", true},
                                         BackendCase{"threads", false}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(DirectReads, RandomBatchesAreRight) {
  // The last block is whole, ends short, or is all there is.
  for (const size_t n_bytes : {7 * kMiB, 7 * kMiB + 1234, kDirectAlignment - 1, size_t{1}}) {
    const KnownFile file(n_bytes);
    for (uint32_t seed = 1; seed <= 4; ++seed) expect_random_batches_right(*queue_, file, seed);
  }
}

TEST_P(DirectReads, FilesMixInABatch) {
  const KnownFile a(2 * kMiB, /*seed=*/1);
  const KnownFile b(2 * kMiB, /*seed=*/2);
  const auto memory = AnonymousMemory::reserve(2 * kMiB, OsPages::kNormal).value();
  const std::vector<ReadRequest> requests = {
      {.file = &a.file(), .offset = kMiB, .out = memory.bytes().first(kMiB)},
      {.file = &b.file(), .offset = 0, .out = memory.bytes().subspan(kMiB)}};
  ASSERT_TRUE(queue_->submit(requests).wait());
  EXPECT_TRUE(as_text(requests[0].out) == a.text().substr(kMiB));
  EXPECT_TRUE(as_text(requests[1].out) == b.text().substr(0, kMiB));
}

TEST_P(DirectReads, AFileThatWasCutShortFailsItsBatchAlone) {
  const KnownFile cut(5 * kMiB, /*seed=*/1);
  const KnownFile whole(5 * kMiB, /*seed=*/2);
  std::filesystem::resize_file(cut.file().path(), kMiB + 100);
  ReadsInFlight lost(*queue_, cut, {{0, 4 * kMiB}}, ReadPriority::kDemand);
  ReadsInFlight found(*queue_, whole, {{0, 4 * kMiB}}, ReadPriority::kDemand);
  const auto done = lost.batch().wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr(cut.file().path().string() + " is too short"));
  EXPECT_TRUE(found.batch().wait());
  EXPECT_TRUE(found.is_right(0));
}

TEST_P(DirectReads, WhatTheKernelRefusesIsAnError) {
  const KnownFile file(kMiB);
  // An address range that is not the process's: the kernel finds out.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the point
  auto* const nowhere = reinterpret_cast<std::byte*>(uintptr_t{kDirectAlignment});
  const ReadRequest request = {
      .file = &file.file(), .offset = 0, .out = std::span(nowhere, kDirectAlignment)};
  const auto done = queue_->submit(std::span(&request, 1)).wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "cannot read " + file.file().path().string() +
                                      ": Bad address: wanted 4096 bytes from offset 0, got 0");
}

TEST_P(DirectReads, TheThreadThatSubmittedMayEndBeforeTheReads) {
  const KnownFile file(8 * kMiB);
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<ReadsInFlight> reads;
    std::thread([&] {
      reads = std::make_unique<ReadsInFlight>(
          *queue_, file, std::vector<ReadsInFlight::Wanted>{{0, file.text().size()}},
          ReadPriority::kDemand);
    }).join();
    const auto done = reads->batch().wait();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(reads->is_right(0));
  }
}

}  // namespace
}  // namespace penstock
