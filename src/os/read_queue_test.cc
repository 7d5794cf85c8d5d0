// What a ReadQueue makes of whatever a backend answers: the backend here is the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>
#include <vector>

#include "os/direct_io.h"
#include "os/known_file_test.h"
#include "os/read_backend.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kBlock = kDirectAlignment;

// Reads from a text. A read lands when the queue waits for one (the first, or any, of those in
// flight), or when the test lets it.
class FakeBackend final : public ReadBackend {
 public:
  // What becomes of the k-th read to land: -errno, or how many bytes it brings of those there are.
  using Script = std::function<int64_t(const PieceRead& read, size_t k, size_t n_there)>;

  FakeBackend(size_t depth, std::string_view text, Script script = {}, uint32_t seed = 0)
      : depth_(depth),
        text_(text),
        script_(std::move(script)),
        random_(seed),
        in_order_(seed == 0) {}

  std::string_view name() const override { return "fake"; }
  size_t depth() const override { return depth_; }

  void start(std::span<const PieceRead> reads) override {
    for (const PieceRead& read : reads) {
      const auto address = reinterpret_cast<uintptr_t>(read.out.data());
      EXPECT_EQ((read.offset | read.out.size() | address) % kBlock, 0u)
          << "the kernel would refuse";
      started.push_back(read.offset);
      in_flight.push_back(read);
    }
    EXPECT_LE(in_flight.size(), depth_);
  }

  void collect(bool wait, std::vector<PieceResult>& results) override {
    ASSERT_TRUE(!wait || !in_flight.empty()) << "waits for nothing";
    for (; n_ready > 0 && !in_flight.empty(); --n_ready) results.push_back(land());
    if (wait && results.empty()) results.push_back(land());
  }

  std::vector<uint64_t> started;  // offsets
  std::vector<PieceRead> in_flight;
  size_t n_landed = 0;
  size_t n_ready = 0;  // reads that land when next asked for

 private:
  PieceResult land() {
    const size_t last = in_order_ ? 0 : in_flight.size() - 1;
    const size_t i = std::uniform_int_distribution<size_t>(0, last)(random_);
    const PieceRead read = in_flight[i];
    in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(i));
    const auto there = text_.substr(std::min<size_t>(read.offset, text_.size()), read.out.size());
    const size_t k = n_landed++;
    const int64_t result =
        script_ ? script_(read, k, there.size()) : static_cast<int64_t>(there.size());
    if (result > 0) std::memcpy(read.out.data(), there.data(), static_cast<size_t>(result));
    return {.id = read.id, .result = result};
  }

  size_t depth_;
  std::string_view text_;
  Script script_;
  std::mt19937 random_;
  bool in_order_;
};

// A queue over a FakeBackend.
struct Rig {
  Rig(const KnownFile& file, ReadQueueOptions options, FakeBackend::Script script = {},
      uint32_t seed = 0) {
    auto made = std::make_unique<FakeBackend>(static_cast<size_t>(options.depth), file.text(),
                                              std::move(script), seed);
    backend = made.get();
    queue = std::make_unique<ReadQueue>(std::move(made), options);
  }
  FakeBackend* backend = nullptr;
  std::unique_ptr<ReadQueue> queue;
};

ReadsInFlight demand(Rig& rig, const KnownFile& file, std::vector<ReadsInFlight::Wanted> wanted) {
  return {*rig.queue, file, std::move(wanted), ReadPriority::kDemand};
}
ReadsInFlight prefetch(Rig& rig, const KnownFile& file, std::vector<ReadsInFlight::Wanted> wanted) {
  return {*rig.queue, file, std::move(wanted), ReadPriority::kPrefetch};
}

TEST(ReadQueue, ShortAndInterruptedReadsAreContinued) {
  const KnownFile file(5 * kMiB + 1234);
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const auto trouble = [&](const PieceRead&, size_t, size_t n_there) -> int64_t {
      const auto up_to = [&](size_t n) {
        return std::uniform_int_distribution<size_t>(0, n)(random);
      };
      switch (up_to(9)) {
        case 0:
          return -EINTR;
        case 1:
          return -EAGAIN;
        case 2:
          return -ECANCELED;
        case 3:
          return static_cast<int64_t>(1 + up_to(n_there - 1));  // ends anywhere
        case 4:
          return static_cast<int64_t>(std::min(kBlock, n_there));
        default:
          return static_cast<int64_t>(n_there);
      }
    };
    Rig rig(file, {.depth = 7, .prefetch_depth = 3}, trouble, seed);
    expect_random_batches_right(*rig.queue, file, seed);
  }
}

TEST(ReadQueue, EachFailingReadFailsItsBatchAlone) {
  const KnownFile file(9 * kMiB);
  const std::vector<ReadsInFlight::Wanted> first = {{0, 2 * kMiB}, {3 * kMiB, kBlock}};
  const std::vector<ReadsInFlight::Wanted> second = {{4 * kMiB, 100}, {6 * kMiB, 3 * kMiB}};
  constexpr size_t kReads = 3 + 4;
  for (size_t fail_at = 0; fail_at <= kReads; ++fail_at) {
    uint64_t failed_offset = 0;
    const auto script = [&](const PieceRead& read, size_t k, size_t n_there) -> int64_t {
      if (k == fail_at) failed_offset = read.offset;
      return k == fail_at ? -EIO : static_cast<int64_t>(n_there);
    };
    Rig rig(file, {.depth = 2, .prefetch_depth = 1}, script, /*seed=*/3);
    auto a = demand(rig, file, first);
    auto b = demand(rig, file, second);
    const auto a_done = a.batch().wait();
    const auto b_done = b.batch().wait();
    const bool a_failed = fail_at < kReads && failed_offset < 4 * kMiB;
    EXPECT_EQ(!a_done, a_failed) << fail_at;
    EXPECT_EQ(!b_done, fail_at < kReads && !a_failed) << fail_at;
    for (size_t i = 0; i < 2; ++i) {
      // A request that is not at fault may have been read before the batch failed, or not.
      EXPECT_TRUE(!a.batch().wait_for(i) || a.is_right(i)) << fail_at;
      EXPECT_TRUE(!b.batch().wait_for(i) || b.is_right(i)) << fail_at;
      EXPECT_TRUE(!a_done || a.batch().wait_for(i)) << fail_at;
      EXPECT_TRUE(!b_done || b.batch().wait_for(i)) << fail_at;
    }
    EXPECT_THAT(rig.backend->in_flight, IsEmpty());
  }
}

TEST(ReadQueue, AFailureNamesFileOffsetWantedAndGot) {
  const KnownFile file(3 * kMiB);
  const auto script = [](const PieceRead&, size_t k, size_t) -> int64_t {
    return k == 0 ? static_cast<int64_t>(2 * kBlock) : -EIO;
  };
  Rig rig(file, {.depth = 1, .prefetch_depth = 1}, script);
  auto reads = demand(rig, file, {{kMiB, 4 * kBlock}});
  const auto done = reads.batch().wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kIo);
  EXPECT_EQ(done.error().message,
            "cannot read " + file.file().path().string() +
                ": Input/output error: wanted 16384 bytes from offset 1048576, got 8192");
  EXPECT_FALSE(reads.batch().wait_for(0));
  EXPECT_EQ(reads.batch().wait_next(), std::nullopt);
  EXPECT_TRUE(reads.batch().is_done(0)) << "failed: nothing to wait for";
}

TEST(ReadQueue, AFileCutShortMeanwhileIsAnError) {
  const KnownFile file(kMiB);
  for (const size_t n_left : {size_t{0}, kBlock, kBlock + 100}) {
    const auto script = [&](const PieceRead& read, size_t, size_t) -> int64_t {
      return static_cast<int64_t>(n_left - std::min<size_t>(n_left, read.offset));
    };
    Rig rig(file, {.depth = 4, .prefetch_depth = 1}, script);
    auto reads = demand(rig, file, {{0, 3 * kBlock}});
    const auto done = reads.batch().wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, file.file().path().string() +
                                        " is too short: wanted 12288 bytes from offset 0, got " +
                                        std::to_string(n_left));
  }
}

TEST(ReadQueue, AReadThatNeverComesThroughEndsInAnError) {
  const KnownFile file(kMiB);
  Rig rig(file, {.depth = 4, .prefetch_depth = 1},
          [](const PieceRead&, size_t, size_t) -> int64_t { return -EAGAIN; });
  auto reads = demand(rig, file, {{0, kBlock}});
  const auto done = reads.batch().wait();
  ASSERT_FALSE(done);
  EXPECT_LE(rig.backend->started.size(), 1000u);
}

TEST(ReadQueue, AReadThatComesBlockByBlockIsNotGivenUp) {
  const KnownFile file(kMiB);
  const auto script = [](const PieceRead&, size_t k, size_t n_there) -> int64_t {
    return k % 2 == 0 ? -EINTR : static_cast<int64_t>(std::min(kBlock, n_there));
  };
  Rig rig(file, {.depth = 4, .prefetch_depth = 1}, script);
  auto reads = demand(rig, file, {{0, kMiB}});
  const auto done = reads.batch().wait();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(reads.is_right(0));
  EXPECT_EQ(rig.backend->n_landed, 2 * kMiB / kBlock);
}

TEST(ReadQueue, ARangeBehindTheEndIsNotReadAtAll) {
  const KnownFile file(kBlock + 100);
  Rig rig(file, {.depth = 4, .prefetch_depth = 1});
  const auto memory = AnonymousMemory::reserve(kMiB, OsPages::kNormal).value();
  const auto try_to_read = [&](uint64_t offset, size_t n_bytes) {
    const std::vector<ReadRequest> requests = {
        {.file = &file.file(), .offset = 0, .out = memory.bytes().first(kBlock)},
        {.file = &file.file(), .offset = offset, .out = memory.bytes().first(n_bytes)}};
    return rig.queue->submit(requests).wait();
  };
  EXPECT_TRUE(try_to_read(kBlock, kBlock)) << "the last block ends short";
  rig.backend->started.clear();
  for (const auto& [offset, n_bytes, got] :
       {std::tuple{uint64_t{kBlock}, 2 * kBlock, 100}, std::tuple{uint64_t{2 * kBlock}, kBlock, 0},
        std::tuple{~uint64_t{0} - kBlock + 1, kBlock, 0}}) {
    const auto done = try_to_read(offset, n_bytes);
    ASSERT_FALSE(done) << offset;
    EXPECT_THAT(done.error().message, HasSubstr("is too short: wanted " + std::to_string(n_bytes)));
    EXPECT_THAT(done.error().message, HasSubstr("got " + std::to_string(got)));
  }
  EXPECT_THAT(rig.backend->started, IsEmpty());
}

TEST(ReadQueue, PiecesAreBoundedAndInOrder) {
  const KnownFile file(4 * kMiB);
  Rig rig(file, {.depth = 8, .prefetch_depth = 1});
  auto reads = demand(rig, file, {{3 * kMiB, kBlock}, {0, 2 * kMiB + kBlock}});
  EXPECT_THAT(rig.backend->started, ElementsAre(3 * kMiB, 0, kMiB, 2 * kMiB));
  for (const PieceRead& read : rig.backend->in_flight) EXPECT_LE(read.out.size(), kReadPieceBytes);
  ASSERT_TRUE(reads.batch().wait());
}

TEST(ReadQueue, DemandsOvertakePrefetches) {
  const KnownFile file(9 * kMiB);
  Rig rig(file, {.depth = 3, .prefetch_depth = 2});
  auto later = prefetch(rig, file, {{0, 5 * kMiB}});
  EXPECT_THAT(rig.backend->started, ElementsAre(0, kMiB)) << "no more than prefetch_depth";
  auto now = demand(rig, file, {{6 * kMiB, 2 * kMiB}});
  ASSERT_TRUE(now.batch().wait());
  EXPECT_THAT(rig.backend->started, ElementsAre(0, kMiB, 6 * kMiB, 7 * kMiB, 2 * kMiB, 3 * kMiB))
      << "what was in flight lands first, then the demand's rest starts";
  EXPECT_TRUE(now.is_right(0));
  ASSERT_TRUE(later.batch().wait());
  EXPECT_TRUE(later.is_right(0));
}

TEST(ReadQueue, APrefetchSomebodyWaitsForIsADemand) {
  const KnownFile file(9 * kMiB);
  Rig rig(file, {.depth = 4, .prefetch_depth = 1});
  auto other = prefetch(rig, file, {{0, 4 * kMiB}});
  auto wanted = prefetch(rig, file, {{5 * kMiB, 2 * kMiB}, {8 * kMiB, kMiB}});
  EXPECT_THAT(rig.backend->started, ElementsAre(0));
  ASSERT_TRUE(wanted.batch().wait_for(1));
  EXPECT_TRUE(wanted.is_right(1));
  EXPECT_THAT(std::vector(rig.backend->started.begin(), rig.backend->started.begin() + 4),
              ElementsAre(0, 5 * kMiB, 6 * kMiB, 8 * kMiB));
  ASSERT_TRUE(other.batch().wait());
}

TEST(ReadQueue, ACancelledBatchReadsNoMoreAndHoldsNobodyUp) {
  const KnownFile file(6 * kMiB);
  Rig rig(file, {.depth = 4, .prefetch_depth = 2});
  ReadsInFlight cancelled =
      prefetch(rig, file, {{.offset = 0, .bytes = kMiB}, {.offset = kMiB, .bytes = 4 * kMiB}});
  cancelled.batch().cancel();
  EXPECT_EQ(rig.backend->started.size(), 2u);
  ReadsInFlight next = demand(rig, file, {{.offset = 5 * kMiB, .bytes = kMiB}});
  EXPECT_TRUE(next.batch().wait());
  EXPECT_EQ(rig.backend->started.size(), 3u);
  // What was in flight lands; a request that was read whole by then is there.
  ASSERT_TRUE(cancelled.batch().wait_for(0));
  EXPECT_TRUE(cancelled.is_right(0));
  const auto never = cancelled.batch().wait_for(1);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(cancelled.batch().wait());
  EXPECT_TRUE(cancelled.are_guards_whole());
}

TEST(ReadQueue, CancellingWhatWasReadChangesNothing) {
  const KnownFile file(2 * kMiB);
  Rig rig(file, {.depth = 4});
  ReadsInFlight reads = demand(rig, file, {{.offset = 0, .bytes = kMiB}});
  ASSERT_TRUE(reads.batch().wait());
  reads.batch().cancel();
  EXPECT_TRUE(reads.batch().wait());
  EXPECT_TRUE(reads.is_right(0));
}

TEST(ReadQueue, TellsWhatLandedFirst) {
  const KnownFile file(9 * kMiB);
  Rig rig(file, {.depth = 2, .prefetch_depth = 1});
  auto reads = demand(rig, file, {{0, 3 * kMiB}, {0, 0}, {4 * kMiB, kBlock}});
  ReadBatch& batch = reads.batch();
  EXPECT_TRUE(batch.is_done(1)) << "asks for nothing";
  EXPECT_FALSE(batch.is_done(0));
  EXPECT_EQ(rig.backend->n_landed, 0u) << "asking does not wait";
  rig.backend->n_ready = 3;
  rig.queue->poll();
  rig.queue->poll();
  EXPECT_TRUE(batch.is_done(0));
  EXPECT_FALSE(batch.is_done(2));
  EXPECT_EQ(batch.wait_next(), 1);
  EXPECT_EQ(batch.wait_next(), 0);
  EXPECT_EQ(rig.backend->n_landed, 3u);
  EXPECT_EQ(batch.wait_next(), 2);
  EXPECT_EQ(batch.wait_next(), std::nullopt);
  EXPECT_TRUE(batch.wait());
}

TEST(ReadQueue, ADroppedBatchWritesNothingMore) {
  const KnownFile file(9 * kMiB);
  Rig rig(file, {.depth = 3, .prefetch_depth = 2});
  auto kept = demand(rig, file, {{8 * kMiB, kBlock}});
  {
    auto dropped = demand(rig, file, {{0, 7 * kMiB}});
    EXPECT_EQ(rig.backend->in_flight.size(), 3u);
  }
  EXPECT_THAT(rig.backend->in_flight, IsEmpty());
  EXPECT_THAT(rig.backend->started, ElementsAre(8 * kMiB, 0, kMiB)) << "the rest never began";
  EXPECT_TRUE(kept.batch().is_done(0));
}

TEST(ReadQueue, BatchesMove) {
  const KnownFile file(3 * kMiB);
  Rig rig(file, {.depth = 2, .prefetch_depth = 1});
  auto a = demand(rig, file, {{0, kMiB}});
  auto b = demand(rig, file, {{kMiB, 2 * kMiB}});
  ReadBatch moved = std::move(a.batch());
  moved = std::move(b.batch());
  ASSERT_TRUE(moved.wait());
  EXPECT_TRUE(b.is_right(0));
}

TEST(ReadQueue, RefusesDepthsOutOfRange) {
  for (const auto& [depth, prefetch_depth] :
       {std::pair{0, 1}, std::pair{1025, 1}, std::pair{4, 0}, std::pair{4, 5}, std::pair{-1, -1}}) {
    const auto queue = ReadQueue::make({.depth = depth, .prefetch_depth = prefetch_depth});
    ASSERT_FALSE(queue);
    EXPECT_EQ(queue.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(DirectRange, CoversWhatIsWantedAndLittleElse) {
  for (const uint64_t offset : {0u, 1u, 4095u, 4096u, 4097u, 999'999u}) {
    for (const size_t n_bytes : {size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1}) {
      const DirectRange range = direct_range_around(offset, n_bytes);
      EXPECT_EQ(range.offset % kBlock, 0u);
      EXPECT_EQ(range.bytes % kBlock, 0u);
      EXPECT_EQ(range.offset + range.skip, offset);
      EXPECT_GE(range.bytes, range.skip + n_bytes);
      EXPECT_LT(range.bytes, range.skip + n_bytes + kBlock);
    }
  }
}

TEST(ReadQueueDeathTest, RefusesWhatIsNotAligned) {
  const KnownFile file(kMiB);
  Rig rig(file, {.depth = 2, .prefetch_depth = 1});
  const auto memory = AnonymousMemory::reserve(kMiB, OsPages::kNormal).value();
  const auto submit = [&](uint64_t offset, std::span<std::byte> out) {
    const ReadRequest request = {.file = &file.file(), .offset = offset, .out = out};
    rig.queue->submit(std::span(&request, 1));
  };
  EXPECT_DEATH(submit(1, memory.bytes().first(kBlock)), "alignment");
  EXPECT_DEATH(submit(0, memory.bytes().first(100)), "alignment");
  EXPECT_DEATH(submit(0, memory.bytes().subspan(512, kBlock)), "alignment");
}

TEST(ReadQueueDeathTest, GoesAfterItsBatches) {
  const KnownFile file(kMiB);
  Rig rig(file, {.depth = 2, .prefetch_depth = 1});
  const auto reads = demand(rig, file, {{0, kBlock}});
  EXPECT_DEATH(rig.queue.reset(), "after its batches");
}

}  // namespace
}  // namespace penstock
