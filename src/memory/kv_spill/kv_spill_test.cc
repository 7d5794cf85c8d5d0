#include "memory/kv_spill/kv_spill.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "memory/kv_spill/spill_pages_test.h"

namespace penstock {
namespace {

constexpr size_t kPageBytes = 1000;
constexpr size_t kSlotBytes = 4096;

// Holds writes up while none is allowed.
class Gate {
 public:
  static constexpr int kAll = 1'000'000;
  void allow(int n) {
    {
      const std::scoped_lock lock(mutex_);
      n_allowed_ = n;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_allowed_ > 0; });
    --n_allowed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_allowed_ = kAll;
};

class KvSpills : public testing::Test {
 protected:
  std::unique_ptr<KvSpill> open(size_t n_slots, OpenPrivateFile open_file = open_private_file) {
    auto spill = KvSpill::open({.folder = folder_.path(),
                                .max_bytes = n_slots * kSlotBytes,
                                .page_bytes = kPageBytes,
                                .identity = "model",
                                .open_file = std::move(open_file)},
                               Log::to_stderr());
    EXPECT_TRUE(spill) << spill.error().text();
    return *std::move(spill);
  }
  static bool keep(KvSpill& spill, uint64_t i, uint64_t before) {
    const auto page = page_of(numbered_key(i), kPageBytes);
    return spill.keep({numbered_key(i), numbered_key(before), page});
  }
  // How many of the chain come back, each as it was.
  static size_t restore(KvSpill& spill, const std::vector<uint64_t>& chain) {
    std::vector<std::vector<std::byte>> pages(chain.size(), std::vector<std::byte>(kPageBytes));
    std::vector<ChainKey> keys;
    for (const uint64_t i : chain) keys.push_back(numbered_key(i));
    spill.restore(/*id=*/7, std::move(keys), {pages.begin(), pages.end()});
    EXPECT_TRUE(becomes_true([&] { return spill.has_restored(); }));
    const auto restored = spill.take_restored();
    EXPECT_FALSE(spill.has_restored());
    EXPECT_EQ(restored.at(0).id, 7U);
    const size_t n = restored.at(0).n_pages;
    for (size_t i = 0; i < chain.size(); ++i) {
      const auto expected =
          i < n ? page_of(numbered_key(chain[i]), kPageBytes) : std::vector<std::byte>(kPageBytes);
      EXPECT_EQ(pages[i], expected) << i;
    }
    return n;
  }
  static bool becomes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  const SpillFolder folder_;
};

TEST_F(KvSpills, BringBackWhatTheyWereGiven) {
  const auto spill = open(10);
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(keep(*spill, i, i - 1));
  EXPECT_TRUE(spill->has(numbered_key(4))) << "at once, wherever it is just now";
  EXPECT_EQ(restore(*spill, {1, 2, 3, 4}), 4U);
  EXPECT_EQ(restore(*spill, {1, 2, 9}), 2U);
  const KvTierCounts counts = spill->counts();
  EXPECT_EQ(counts.n_pages, 4);
  EXPECT_EQ(counts.bytes, 4 * kSlotBytes);
  EXPECT_EQ(counts.n_spilled, 4);
  EXPECT_EQ(counts.n_restored, 6);
  EXPECT_EQ(counts.n_dropped, 0);
  EXPECT_EQ(counts.n_damaged, 0);
  EXPECT_GT(counts.read_seconds, 0.0);
}

TEST_F(KvSpills, OutliveTheProcess) {
  ChainSecret secret;
  {
    const auto spill = open(10);
    secret = spill->secret();
    for (uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(keep(*spill, i, i - 1));
  }  // what was given is written before the end
  const auto spill = open(10);
  EXPECT_EQ(spill->secret(), secret);
  EXPECT_TRUE(spill->has(numbered_key(4)));
  EXPECT_EQ(spill->counts().n_pages, 4);
  EXPECT_EQ(restore(*spill, {1, 2, 3, 4}), 4U);
}

TEST_F(KvSpills, DropWhatTheDiskIsTooSlowFor) {
  Gate gate;
  const auto spill = open(1000, failing_files([&] {
                            gate.pass();
                            return false;
                          }));
  gate.allow(0);
  int64_t n_taken = 0;
  for (uint64_t i = 1; i <= 1000; ++i) n_taken += keep(*spill, i, 10'000 + i) ? 1 : 0;
  EXPECT_LT(n_taken, 1000);
  EXPECT_GT(n_taken, 0);
  EXPECT_FALSE(spill->has_room());
  EXPECT_TRUE(spill->takes_pages());
  EXPECT_FALSE(spill->has(numbered_key(1000)));
  std::atomic<bool> is_told = false;
  spill->set_listener([&] { is_told = true; });
  gate.allow(Gate::kAll);
  EXPECT_TRUE(becomes_true([&] { return is_told && spill->has_room(); }));
  EXPECT_TRUE(becomes_true([&] { return spill->counts().n_pages == n_taken; }));
  EXPECT_EQ(spill->counts().n_dropped, 1000 - n_taken);
  spill->set_listener(nullptr);
}

TEST_F(KvSpills, ReadsGoBeforeWrites) {
  Gate gate;
  const auto spill = open(1000, failing_files([&] {
                            gate.pass();
                            return false;
                          }));
  ASSERT_TRUE(keep(*spill, 1, 0));
  ASSERT_TRUE(becomes_true([&] { return spill->counts().n_spilled == 1; }));
  gate.allow(0);
  for (uint64_t i = 2; i <= 100; ++i) keep(*spill, i, i - 1);
  std::vector<std::byte> page(kPageBytes);
  spill->restore(1, {numbered_key(1)}, {std::span(page)});
  gate.allow(3);  // the page whose writing has begun
  ASSERT_TRUE(becomes_true([&] { return spill->has_restored(); }));
  EXPECT_EQ(page, page_of(numbered_key(1), kPageBytes));
  EXPECT_LE(spill->counts().n_spilled, 2);
  gate.allow(Gate::kAll);
}

TEST_F(KvSpills, AFullDiskEndsWritingAndNothingElse) {
  std::atomic<bool> is_full = false;
  const auto spill = open(100, failing_files([&] { return is_full.load(); }));
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(keep(*spill, i, i - 1));
  ASSERT_TRUE(becomes_true([&] { return spill->counts().n_spilled == 3; }));
  is_full = true;
  testing::internal::CaptureStderr();
  for (uint64_t i = 11; i <= 15; ++i) keep(*spill, i, i - 1);
  EXPECT_TRUE(becomes_true([&] { return !spill->takes_pages(); }));
  EXPECT_FALSE(keep(*spill, 16, 15));
  EXPECT_TRUE(becomes_true([&] { return spill->counts().n_dropped == 6; }));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string warning = "no more KV pages are spilled";
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << "once: " << log;
  EXPECT_FALSE(spill->has(numbered_key(11)));
  EXPECT_EQ(restore(*spill, {1, 2, 3}), 3U);
}

TEST_F(KvSpills, ForgetEverythingWhenAsked) {
  const auto spill = open(100);
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(keep(*spill, i, i - 1));
  spill->forget_all();
  EXPECT_FALSE(spill->has(numbered_key(1)));
  EXPECT_EQ(restore(*spill, {1, 2, 3}), 0U);
  ASSERT_TRUE(keep(*spill, 1, 0)) << "and go on";
  EXPECT_EQ(restore(*spill, {1}), 1U);
  EXPECT_EQ(spill->counts().n_pages, 1);
}

TEST_F(KvSpills, ADamagedPageIsCountedAndForgotten) {
  {
    const auto spill = open(10);
    ASSERT_TRUE(keep(*spill, 1, 0));
  }
  {
    std::FILE* const file = std::fopen((folder_.path() / "pages").c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    std::fputc('x', file);
    std::fputc('y', file);
    std::fclose(file);
  }
  const auto spill = open(10);
  EXPECT_EQ(restore(*spill, {1}), 0U);
  EXPECT_EQ(spill->counts().n_damaged, 1);
  EXPECT_FALSE(spill->has(numbered_key(1)));
  ASSERT_TRUE(keep(*spill, 1, 0));
  EXPECT_EQ(restore(*spill, {1}), 1U);
}

// Ends while reads wait: nothing is written to their memory after that.
TEST_F(KvSpills, EndWithReadsUnanswered) {
  std::vector<std::byte> page(kPageBytes);
  auto spill = open(10);
  ASSERT_TRUE(keep(*spill, 1, 0));
  for (uint64_t id = 0; id < 100; ++id) spill->restore(id, {numbered_key(1)}, {std::span(page)});
  spill.reset();
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "pages"));
}

}  // namespace
}  // namespace penstock
