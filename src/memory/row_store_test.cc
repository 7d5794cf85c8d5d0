#include "memory/row_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "cuda/fake_driver.h"
#include "memory/direct_rows.h"
#include "os/failing_reads_test.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

constexpr size_t kRowBytes = 160;
constexpr int64_t kRowsOfShard = 1001;
constexpr int64_t kRows = 4 * kRowsOfShard + 77;

// Row r says who it is, and has bytes that no other row has.
std::string row_text(int64_t row) {
  std::mt19937_64 random(static_cast<uint64_t>(row) + 1);
  std::string text(kRowBytes, '\0');
  for (size_t i = 0; i < kRowBytes; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(text.data() + i, &word, sizeof word);
  }
  return text;
}

// Five shards in two files, in no order, at odd offsets, with other bytes between them.
class RowStoreTest : public testing::Test {
 protected:
  RowStoreTest() {
    std::array<std::string, 2> texts = {std::string(777, 'x'), std::string(5, 'y')};
    table_ = {.row_bytes = kRowBytes, .shards = std::vector<Extent>(5)};
    for (const auto& [shard, file] : {std::pair{3, 0}, {0, 0}, {4, 1}, {2, 1}, {1, 0}}) {
      std::string& text = texts[static_cast<size_t>(file)];
      const int64_t begin = shard * kRowsOfShard;
      const int64_t end = std::min(begin + kRowsOfShard, kRows);
      table_.shards[static_cast<size_t>(shard)] = {static_cast<uint32_t>(file), text.size(),
                                                   static_cast<uint64_t>(end - begin) * kRowBytes};
      for (int64_t row = begin; row < end; ++row) text += row_text(row);
      text += std::string(static_cast<size_t>(33 * shard), 'z');
    }
    for (const char* name : {"a", "b"}) {
      folder_.write(name, texts[files_.size()]);
      files_.push_back(folder_.path() / name);
    }
  }

  std::unique_ptr<RowStore> store(const RowStoreOptions& options) const {
    return RowStore::make(files_, table_, options).value();
  }

  FakeRoot folder_;
  std::vector<std::filesystem::path> files_;
  RowTable table_;
};

std::vector<int64_t> random_rows(std::mt19937& random, size_t n) {
  std::vector<int64_t> rows(n);
  for (int64_t& row : rows) row = std::uniform_int_distribution<int64_t>(0, kRows - 1)(random);
  return rows;
}

// "" where they are all as they should be.
std::string wrong_rows(std::span<const int64_t> rows, std::span<const std::byte> out) {
  std::string wrong;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string expected = row_text(rows[i]);
    if (std::memcmp(out.data() + i * kRowBytes, expected.data(), kRowBytes) != 0) {
      wrong += std::to_string(rows[i]) + " ";
    }
  }
  return wrong;
}

class RowStoreOfBackend : public RowStoreTest, public testing::WithParamInterface<RowBackend> {};

TEST_P(RowStoreOfBackend, RandomStepsGetTheirRows) {
  const auto rows_of = store({.backend = GetParam(), .staging_bytes = 64 * kKiB});
  EXPECT_EQ(rows_of->n_rows(), kRows);
  std::mt19937 random(7);
  for (const size_t n : {0, 1, 16, 1, 500, 3000}) {
    std::vector<int64_t> rows = random_rows(random, n);
    if (n > 10) rows[3] = rows[9] = kRows - 1;  // the last one, twice
    if (n > 10) rows[4] = 0;
    std::vector<std::byte> out(n * kRowBytes);
    auto fetch = rows_of->begin(rows, out);
    ASSERT_TRUE(fetch) << fetch.error().message;
    const auto joined = fetch->join();
    ASSERT_TRUE(joined) << joined.error().message;
    EXPECT_EQ(wrong_rows(rows, out), "") << n << " rows";
  }
}

// Shard 3 lies before shard 1, in one file.
TEST_P(RowStoreOfBackend, ShardsMayLieInAnyOrder) {
  const auto rows_of = store({.backend = GetParam()});
  const std::vector<int64_t> rows = {1500, 3 * kRowsOfShard, 1501, 20};
  std::vector<std::byte> out(rows.size() * kRowBytes);
  ASSERT_TRUE(rows_of->begin(rows, out)->join());
  EXPECT_EQ(wrong_rows(rows, out), "");
}

TEST_P(RowStoreOfBackend, ARowThatIsNotThereIsAnError) {
  const auto rows_of = store({.backend = GetParam()});
  std::vector<std::byte> out(kRowBytes);
  for (const int64_t row : {int64_t{-1}, kRows}) {
    const auto fetch = rows_of->begin({&row, 1}, out);
    ASSERT_FALSE(fetch);
    EXPECT_EQ(fetch.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(fetch.error().message.find(std::to_string(row)), std::string::npos);
  }
}

TEST_P(RowStoreOfBackend, ADroppedFetchIsForgotten) {
  const auto rows_of = store({.backend = GetParam(), .staging_bytes = 64 * kKiB});
  std::mt19937 random(9);
  const std::vector<int64_t> rows = random_rows(random, 2000);
  {
    std::vector<std::byte> gone(rows.size() * kRowBytes);
    ASSERT_TRUE(rows_of->begin(rows, gone));
  }
  std::vector<std::byte> out(rows.size() * kRowBytes);
  ASSERT_TRUE(rows_of->begin(rows, out)->join());
  EXPECT_EQ(wrong_rows(rows, out), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, RowStoreOfBackend,
                         testing::Values(RowBackend::kPinned, RowBackend::kMmap,
                                         RowBackend::kDirect),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// As far as the driver grants it: the rows are the same.
TEST_F(RowStoreTest, APinnedTableThatADriverRefusesInPartIsRightAsWell) {
  for (const size_t quota : {size_t{0}, 200 * kKiB, size_t{1} << 30}) {
    FakeDriver driver({.pins = {.total_bytes = quota}});
    {
      PinStore pins(driver, {}, Log::none());
      const auto rows_of = store({.backend = RowBackend::kPinned, .pins = &pins});
      EXPECT_EQ(pins.report().n_banks, table_.shards.size());
      EXPECT_EQ(pins.report().registered_bytes > 0, quota > 0);
      std::mt19937 random(3);
      const std::vector<int64_t> rows = random_rows(random, 300);
      std::vector<std::byte> out(rows.size() * kRowBytes);
      ASSERT_TRUE(rows_of->begin(rows, out)->join());
      EXPECT_EQ(wrong_rows(rows, out), "");
    }
  }
}

TEST_F(RowStoreTest, TablesThatCannotBeAreRefused) {
  const auto refused = [&](auto change) {
    RowTable table = table_;
    change(table);
    const auto made = RowStore::make(files_, std::move(table), {});
    return !made && made.error().kind == ErrorKind::kInvalidData;
  };
  EXPECT_TRUE(refused([](RowTable& t) { t.row_bytes = 0; }));
  EXPECT_TRUE(refused([](RowTable& t) { t.row_bytes = 161; }));
  EXPECT_TRUE(refused([](RowTable& t) { t.shards.clear(); }));
  EXPECT_TRUE(refused([](RowTable& t) { t.shards[2].bytes -= kRowBytes; }));
  EXPECT_TRUE(refused([](RowTable& t) { t.shards[4].bytes = t.shards[0].bytes + kRowBytes; }));
  EXPECT_TRUE(refused([](RowTable& t) { t.shards[1].offset += 1'000'000; }));
  EXPECT_TRUE(refused([](RowTable& t) { t.shards[1].file = 2; }));
  const auto made = RowStore::make(files_, table_, {.staging_bytes = 8 * kKiB});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("staging"), std::string::npos);
}

TEST_F(RowStoreTest, AReadThatFailsIsOneErrorAndTheNextFetchIsRight) {
  std::mt19937 random(5);
  const std::vector<int64_t> rows = random_rows(random, 60);
  std::vector<std::byte> out(rows.size() * kRowBytes);
  for (const int fails : {0, 1, 7, 20}) {
    const auto rows_of =
        make_direct_rows(files_, table_, 64 * kKiB,
                         std::make_unique<ReadQueue>(std::make_unique<FailingReads>(fails),
                                                     ReadQueueOptions{.depth = 4}))
            .value();
    const auto joined = rows_of->begin(rows, out)->join();
    ASSERT_FALSE(joined) << "read " << fails;
    EXPECT_NE(joined.error().message.find(folder_.path().string()), std::string::npos);
    ASSERT_TRUE(rows_of->begin(rows, out)->join());
    EXPECT_EQ(wrong_rows(rows, out), "");
  }
}

}  // namespace
}  // namespace penstock
