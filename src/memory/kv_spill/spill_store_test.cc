#include "memory/kv_spill/spill_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "memory/kv_spill/spill_pages_test.h"
#include "os/failing_reads_test.h"

namespace penstock {
namespace {

constexpr size_t kPageBytes = 5000;  // no multiple of anything
constexpr size_t kSlotBytes = 8192;

class SpillStores : public testing::Test {
 protected:
  SpillStoreOptions options(size_t n_slots, std::string identity = "model") const {
    return {.folder = folder_.path(),
            .max_bytes = n_slots * kSlotBytes,
            .page_bytes = kPageBytes,
            .identity = std::move(identity)};
  }
  SpillStore open(size_t n_slots, std::string identity = "model") const {
    auto store = SpillStore::open(options(n_slots, std::move(identity)));
    EXPECT_TRUE(store) << store.error().text();
    return *std::move(store);
  }

  SpillStore::Put put(SpillStore& store, uint64_t i, uint64_t before) {
    const auto page = page_of(numbered_key(i), kPageBytes);
    std::ranges::copy(page, slot_.bytes().begin());
    return store.put(numbered_key(i), numbered_key(before), slot_.bytes());
  }
  // How many of the chain came, each as it was.
  static size_t n_got(SpillStore& store, const std::vector<uint64_t>& chain) {
    std::vector<std::vector<std::byte>> pages(chain.size(), std::vector<std::byte>(kPageBytes));
    std::vector<SpillStore::Wanted> wanted;
    for (size_t i = 0; i < chain.size(); ++i) wanted.push_back({numbered_key(chain[i]), pages[i]});
    const SpillStore::Got got = store.get(wanted);
    EXPECT_EQ(got.error.has_value(), got.n < chain.size());
    for (size_t i = 0; i < chain.size(); ++i) {
      const auto expected = i < got.n ? page_of(numbered_key(chain[i]), kPageBytes)
                                      : std::vector<std::byte>(kPageBytes);
      EXPECT_EQ(pages[i], expected) << "page " << i << " of the chain, " << got.n << " came";
    }
    return got.n;
  }
  // Everything that the store says it has is what it was. How many pages that are.
  static size_t n_whole(SpillStore& store) {
    size_t n = 0;
    for (const ChainKey& key : store.keys()) n += n_got(store, {key.high});
    return n;
  }

  std::filesystem::path index() const { return folder_.path() / "index"; }
  std::filesystem::path pages() const { return folder_.path() / "pages"; }
  static void flip(const std::filesystem::path& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 0x40));
    ASSERT_TRUE(file.good());
  }
  void fill(size_t n_slots, uint64_t n) {
    SpillStore store = open(n_slots);
    for (uint64_t i = 1; i <= n; ++i) ASSERT_TRUE(put(store, i, i - 1).is_stored);
  }

  const SpillFolder folder_;
  const AnonymousMemory slot_ = AnonymousMemory::reserve(kSlotBytes, OsPages::kNormal).value();
};

// What the store does, in as few words as possible.
struct PlainStore {
  struct Page {
    uint64_t before;
    uint64_t last_used;
  };
  bool is_continued(uint64_t key) const {
    return std::ranges::any_of(pages, [&](const auto& page) { return page.second.before == key; });
  }
  bool put(uint64_t key, uint64_t before) {
    if (pages.contains(key)) {
      pages[key].last_used = ++clock;
      return true;
    }
    if (pages.size() == n_slots) {
      std::optional<uint64_t> victim;
      for (const auto& [other, page] : pages) {
        if (other == before || is_continued(other)) continue;
        if (!victim || page.last_used < pages[*victim].last_used) victim = other;
      }
      if (!victim) return false;
      pages.erase(*victim);
    }
    pages[key] = {before, ++clock};
    return true;
  }

  size_t n_slots;
  std::map<uint64_t, Page> pages = {};
  uint64_t clock = 0;
};

TEST_F(SpillStores, DoWhatAPlainOneDoes) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlainStore plain{.n_slots = 1 + random() % 12};
    std::filesystem::remove_all(folder_.path());
    std::optional<SpillStore> store = open(plain.n_slots);
    for (int i = 0; i < 600; ++i) {
      const uint64_t key = 1 + random() % 30;
      switch (random() % 8) {
        case 0: {
          ASSERT_EQ(n_got(*store, {key}), plain.pages.contains(key) ? 1U : 0U);
          if (plain.pages.contains(key)) plain.pages[key].last_used = ++plain.clock;
          break;
        }
        case 1:
          store->touch(numbered_key(key));
          if (plain.pages.contains(key)) plain.pages[key].last_used = ++plain.clock;
          break;
        case 2:
          if (random() % 10 > 0) break;
          ASSERT_TRUE(store->close());
          store.reset();
          store.emplace(open(plain.n_slots));
          EXPECT_EQ(store->note(), "");
          break;
        case 3:
          if (random() % 50 > 0) break;
          ASSERT_TRUE(store->clear());
          plain.pages.clear();
          break;
        default: {
          // A page has one place: key / 2 is a tree.
          const bool is_stored = plain.put(key, key / 2);
          const SpillStore::Put done = put(*store, key, key / 2);
          ASSERT_EQ(done.is_stored, is_stored);
          ASSERT_FALSE(done.error);
        }
      }
      ASSERT_EQ(store->n_pages(), plain.pages.size());
      for (const auto& [there, page] : plain.pages) ASSERT_TRUE(store->has(numbered_key(there)));
    }
    EXPECT_EQ(n_whole(*store), plain.pages.size());
  }
}

TEST_F(SpillStores, BringChainsBackInBatches) {
  fill(/*n_slots=*/100, /*n=*/100);
  SpillStore store = open(100);
  std::vector<uint64_t> chain(100);
  for (size_t i = 0; i < chain.size(); ++i) chain[i] = i + 1;
  EXPECT_EQ(n_got(store, chain), 100U);
  chain.insert(chain.begin() + 40, 1000);
  EXPECT_EQ(n_got(store, chain), 40U) << "what is behind a page that is missing is of no use";
}

TEST_F(SpillStores, ANewPageNeverPushesOutTheOneItContinues) {
  SpillStore store = open(3);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(put(store, i, i - 1).is_stored);
  EXPECT_FALSE(put(store, 4, 3).is_stored) << "all there is are the pages before it";
  EXPECT_EQ(n_got(store, {1, 2, 3}), 3U);
  const SpillStore::Put other = put(store, 11, 10);
  EXPECT_TRUE(other.is_stored);
  EXPECT_EQ(other.evicted, numbered_key(3)) << "the end of the chain goes first";
}

TEST_F(SpillStores, NeverTakeMoreThanTheirBudget) {
  fill(/*n_slots=*/4, /*n=*/4);
  {
    SpillStore store = open(4);
    for (uint64_t i = 11; i <= 40; ++i) ASSERT_TRUE(put(store, i, 1000 + i).is_stored);
    EXPECT_EQ(store.n_pages(), 4U);
    EXPECT_EQ(std::filesystem::file_size(pages()), 4 * kSlotBytes);
  }
  SpillStore smaller = open(2);
  EXPECT_LE(smaller.n_pages(), 2U);
  EXPECT_EQ(n_whole(smaller), smaller.n_pages());
  EXPECT_EQ(std::filesystem::file_size(pages()), 2 * kSlotBytes);
  EXPECT_LE(std::filesystem::file_size(index()), kHeaderBytes + 2 * kRecordBytes);
}

TEST_F(SpillStores, RefuseABudgetOfLessThanAPage) {
  auto wanted = options(1);
  wanted.max_bytes = kSlotBytes - 1;
  const auto store = SpillStore::open(std::move(wanted));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(SpillStores, EveryFailedWriteCostsAPageAtMost) {
  constexpr uint64_t kPuts = 9;
  for (int fail_at = 0;; ++fail_at) {
    SCOPED_TRACE(fail_at);
    std::filesystem::remove_all(folder_.path());
    fill(5, 5);  // so that records and pages are there to be overwritten
    int n_writes = 0;
    auto failing = options(5);
    failing.open_file = failing_files([&] { return n_writes++ == fail_at; });
    uint64_t n_failed = 0;
    {
      auto store = SpillStore::open(std::move(failing));
      ASSERT_TRUE(store);
      for (uint64_t i = 11; i < 11 + kPuts; ++i) {
        const SpillStore::Put done = put(*store, i, 1000 + i);
        EXPECT_NE(done.is_stored, done.error.has_value());
        n_failed += done.error ? 1 : 0;
      }
      EXPECT_EQ(n_whole(*store), store->n_pages());
      EXPECT_GE(store->n_pages(), 4U);
    }
    SpillStore again = open(5);
    EXPECT_GE(again.n_pages(), 4U);
    EXPECT_EQ(n_whole(again), again.n_pages());
    if (n_failed == 0) break;
    ASSERT_LT(fail_at, 100);
  }
}

TEST_F(SpillStores, EveryFailedReadIsAMiss) {
  fill(6, 6);
  const std::vector<uint64_t> chain = {1, 2, 3, 4, 5, 6};
  for (int fail_at = 0; fail_at < 6; ++fail_at) {
    SCOPED_TRACE(fail_at);
    auto failing = options(6);
    failing.reads =
        std::make_unique<ReadQueue>(std::make_unique<FailingReads>(fail_at), ReadQueueOptions{});
    auto store = SpillStore::open(std::move(failing));
    ASSERT_TRUE(store);
    const size_t n = n_got(*store, chain);
    ASSERT_LE(n, static_cast<size_t>(fail_at));
    const uint64_t lost = chain[n];
    EXPECT_FALSE(store->has(numbered_key(lost)));
    EXPECT_TRUE(put(*store, lost, lost - 1).is_stored) << "it may come again";
    EXPECT_EQ(n_got(*store, chain), 6U);
  }
}

TEST_F(SpillStores, ADamagedHeaderIsNotTrusted) {
  // Magic, version, identity, page size, secret, checksum.
  for (uint64_t offset = 0; offset < 240; offset += offset < 48 ? 1 : 13) {
    SCOPED_TRACE(offset);
    std::filesystem::remove_all(folder_.path());
    fill(3, 3);
    flip(index(), offset);
    {
      SpillStore store = open(3);
      EXPECT_EQ(store.n_pages(), 0U);
      EXPECT_NE(store.note(), "");
      ASSERT_TRUE(put(store, 7, 6).is_stored);
    }
    SpillStore store = open(3);
    EXPECT_EQ(store.note(), "");
    EXPECT_EQ(n_got(store, {7}), 1U);
  }
}

TEST_F(SpillStores, ADamagedRecordCostsItsPage) {
  for (uint64_t offset = kHeaderBytes; offset < kHeaderBytes + 3 * kRecordBytes; ++offset) {
    SCOPED_TRACE(offset);
    std::filesystem::remove_all(folder_.path());
    fill(3, 3);
    flip(index(), offset);
    SpillStore store = open(3);
    EXPECT_EQ(store.n_pages(), 2U);
    EXPECT_NE(store.note().find("1 of 3"), std::string::npos) << store.note();
    EXPECT_EQ(n_whole(store), 2U);
  }
}

TEST_F(SpillStores, ARecordIsGoodForItsSlotOnly) {
  fill(3, 3);
  std::vector<char> record(kRecordBytes);
  {
    std::fstream file(index(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(kHeaderBytes);
    file.read(record.data(), kRecordBytes);
    file.seekp(kHeaderBytes + kRecordBytes);
    file.write(record.data(), kRecordBytes);
  }
  SpillStore store = open(3);
  EXPECT_EQ(store.n_pages(), 2U);
  EXPECT_EQ(n_whole(store), 2U);
}

TEST_F(SpillStores, ADamagedPageIsAMiss) {
  for (const size_t offset : {size_t{0}, size_t{1}, kPageBytes / 2, kPageBytes - 1}) {
    SCOPED_TRACE(offset);
    std::filesystem::remove_all(folder_.path());
    fill(3, 3);
    flip(pages(), kSlotBytes + offset);
    {
      SpillStore store = open(3);
      EXPECT_EQ(n_got(store, {1, 2, 3}), 1U);
      EXPECT_EQ(store.n_pages(), 2U);
      EXPECT_EQ(n_got(store, {3}), 1U);
    }
    EXPECT_EQ(open(3).n_pages(), 2U) << "it stays forgotten";
  }
}

TEST_F(SpillStores, PagesThatChangedPlacesAreMisses) {
  fill(2, 2);
  std::vector<char> bytes(2 * kSlotBytes);
  std::fstream file(pages(), std::ios::in | std::ios::out | std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::ranges::rotate(bytes, bytes.begin() + kSlotBytes);
  file.seekp(0);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  SpillStore store = open(2);
  EXPECT_EQ(n_got(store, {1}), 0U);
  EXPECT_EQ(n_got(store, {2}), 0U);
}

TEST_F(SpillStores, CutOffFilesCostWhatIsCutOff) {
  for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{239}, kHeaderBytes - 1, kHeaderBytes,
                           kHeaderBytes + 1, kHeaderBytes + kRecordBytes - 1,
                           kHeaderBytes + kRecordBytes, kHeaderBytes + 2 * kRecordBytes + 7}) {
    SCOPED_TRACE(n);
    std::filesystem::remove_all(folder_.path());
    fill(3, 3);
    std::filesystem::resize_file(index(), n);
    SpillStore store = open(3);
    EXPECT_EQ(store.n_pages(), n < kHeaderBytes ? 0 : (n - kHeaderBytes) / kRecordBytes);
    EXPECT_EQ(n_whole(store), store.n_pages());
  }
  for (const uint64_t n :
       {uint64_t{0}, uint64_t{1}, kSlotBytes - 1, kSlotBytes, 2 * kSlotBytes + 1}) {
    SCOPED_TRACE(n);
    std::filesystem::remove_all(folder_.path());
    fill(3, 3);
    std::filesystem::resize_file(pages(), n);
    SpillStore store = open(3);
    EXPECT_EQ(store.n_pages(), n / kSlotBytes);
    EXPECT_EQ(n_whole(store), store.n_pages());
    EXPECT_NE(store.note(), "");
  }
}

TEST_F(SpillStores, PagesOfSomethingElseAreThrownAway) {
  fill(3, 3);
  {
    SpillStore other = open(3, "another model");
    EXPECT_EQ(other.n_pages(), 0U);
    EXPECT_NE(other.note().find("another model, by another version"), std::string::npos)
        << other.note();
  }
  EXPECT_EQ(open(3).n_pages(), 0U) << "and they are gone";
  fill(3, 3);
  auto of_other_size = options(3);
  of_other_size.page_bytes = kPageBytes + 1;
  const auto store = SpillStore::open(std::move(of_other_size));
  ASSERT_TRUE(store);
  EXPECT_EQ(store->n_pages(), 0U);
}

TEST_F(SpillStores, AnEmptiedOneSharesNoSecretWithWhatWasThere) {
  const ChainSecret before = open(3).secret();
  EXPECT_EQ(open(3).secret(), before);
  EXPECT_NE(open(3, "another model").secret(), before);
}

TEST_F(SpillStores, BelongToOneProcess) {
  {
    const SpillStore first = open(3);
    const auto second = SpillStore::open(options(3));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
    EXPECT_NE(second.error().message.find(folder_.path().string()), std::string::npos)
        << second.error().message;
  }
  EXPECT_TRUE(SpillStore::open(options(3)));
}

TEST_F(SpillStores, AreForThisUserAlone) {
  fill(3, 3);
  const auto rights = [](const std::filesystem::path& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 0777U;
  };
  EXPECT_EQ(rights(folder_.path()), 0700U);
  EXPECT_EQ(rights(index()), 0600U);
  EXPECT_EQ(rights(pages()), 0600U);
}

TEST_F(SpillStores, SayWhyAFolderCannotBeUsed) {
  std::ofstream(folder_.path()) << "a file";
  const auto store = SpillStore::open(options(3));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::kIo);
  EXPECT_NE(store.error().message.find(folder_.path().string()), std::string::npos);
}

// Whenever the process is killed, a later one finds no wrong page, and all but the one that was
// being written.
TEST_F(SpillStores, AKillInTheMiddleOfWritingLeavesNothingWrong) {
  constexpr size_t kSlots = 8;
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    std::array<int, 2> pipe = {};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = SpillStore::open(options(kSlots));
      for (uint64_t i = 1; store; ++i) {
        put(*store, 1 + i % 100, 1000 + i);
        if (i == 2 * kSlots && ::write(pipe[1], "", 1) != 1) break;
      }
      ::_exit(1);
    }
    ::close(pipe[1]);
    char is_full = 1;
    EXPECT_EQ(::read(pipe[0], &is_full, 1), 1) << "the child ended";
    ::close(pipe[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    SpillStore store = open(kSlots);
    EXPECT_GE(store.n_pages(), kSlots - 1);
    EXPECT_EQ(n_whole(store), store.n_pages());
  }
}

}  // namespace
}  // namespace penstock
