#include "memory/bank_store.h"

#include <xxhash.h>

#include <array>
#include <vector>

#include "cuda/fake_driver.h"
#include "memory/known_experts_test.h"
#include "os/file.h"

namespace penstock {
namespace {

constexpr Residency kPinned = Residency::kPinned;
constexpr Residency kLocked = Residency::kLocked;
constexpr Residency kPageable = Residency::kPageable;
constexpr Residency kDisk = Residency::kDisk;

class BankStoreTest : public KnownExpertsTest {
 protected:
  std::unique_ptr<BankStore> load(const BankOptions& options) const {
    auto banks = BankStore::load(checkpoint_, options);
    EXPECT_TRUE(banks) << banks.error().message;
    return banks ? *std::move(banks) : nullptr;
  }
  static void expect_bank(const BankStore& banks, int layer) {
    ASSERT_TRUE(banks.has(layer));
    for (int index = 0; index < kExperts; ++index) {
      const ExpertId id = {static_cast<uint16_t>(layer), static_cast<uint16_t>(index)};
      expect_expert(banks.matrices(id), layer, index);
    }
  }
};

TEST_F(BankStoreTest, BanksHoldTheirExpertsWhateverTheFilesOrder) {
  const auto pool = Pool::make({.n_threads = 2}).value();
  for (const Order order : {Order::kExpertByExpert, Order::kMatrixByMatrix}) {
    for (const size_t first : {size_t{0}, size_t{4096 + 17}}) {
      write(order, first);
      for (Pool* workers : {pool.get(), static_cast<Pool*>(nullptr)}) {
        constexpr std::array kAll = {kPageable, kPageable, kPageable};
        const auto banks = load({.residencies = kAll, .pool = workers});
        ASSERT_TRUE(banks);
        EXPECT_EQ(banks->n_banks(), 2);
        EXPECT_EQ(banks->bytes(), uint64_t{2} * kExperts * 11'100);
        EXPECT_FALSE(banks->has(1)) << "a dense layer";
        expect_bank(*banks, 0);
        expect_bank(*banks, 2);
      }
    }
  }
}

TEST_F(BankStoreTest, LayersOnDiskAreLeftThere) {
  write(Order::kExpertByExpert, 5);
  constexpr std::array kSome = {kDisk, kPageable, kPageable};
  const auto banks = load({.residencies = kSome});
  ASSERT_TRUE(banks);
  EXPECT_FALSE(banks->has(0));
  expect_bank(*banks, 2);
  constexpr std::array kNone = {kDisk, kDisk, kDisk};
  EXPECT_EQ(load({.residencies = kNone})->n_banks(), 0);
}

// Whatever the driver grants of it, a bank holds what it should, and everything is given back.
TEST_F(BankStoreTest, PinsAreWhatTheDriverGrants) {
  write(Order::kMatrixByMatrix, 100);
  constexpr std::array kPins = {kPinned, kPageable, kPinned};
  size_t before = 0;
  for (const size_t quota : {size_t{0}, 64 * kKiB, 200 * kKiB, FakePinLimits::kNone}) {
    SCOPED_TRACE(quota);
    FakeDriver driver({.pins = {.total_bytes = quota}});
    PinStore pins(driver, {}, Log::none());
    {
      const auto banks = load({.residencies = kPins, .pins = &pins});
      ASSERT_TRUE(banks);
      EXPECT_EQ(banks->pinned_bytes() == 0, quota == 0);
      EXPECT_LE(banks->pinned_bytes(), quota);
      EXPECT_EQ(pins.report().registered_bytes, driver.registered_bytes());
      EXPECT_GE(banks->pinned_bytes(), before);
      before = banks->pinned_bytes();
      expect_bank(*banks, 0);
      expect_bank(*banks, 2);
    }
    EXPECT_EQ(driver.registered_bytes(), 0u);
  }
  EXPECT_GE(before, size_t{2} * kExperts * 11'100);
}

// The k-th registration that is refused, or that cannot be undone, for every k there is.
TEST_F(BankStoreTest, EveryFaultOfTheDriverEndsInService) {
  write(Order::kExpertByExpert, 0);
  constexpr std::array kPins = {kPinned, kPageable, kPinned};
  for (const DriverCall call : {DriverCall::kRegister, DriverCall::kUnregister}) {
    for (int64_t k = 1;; ++k) {
      SCOPED_TRACE(k);
      FakeDriver driver(
          {.pins = {.call_bytes = 96 * kKiB}, .refusals = {{.call = call, .first = k}}});
      PinStore pins(driver, {}, Log::none());
      {
        const auto banks = load({.residencies = kPins, .pins = &pins});
        ASSERT_TRUE(banks);
        expect_bank(*banks, 0);
        expect_bank(*banks, 2);
      }
      EXPECT_EQ(driver.registered_bytes(), pins.report().stuck_bytes);
      EXPECT_EQ(pins.report().stuck_bytes > 0,
                call == DriverCall::kUnregister && driver.n_calls(call) >= k);
      if (driver.n_calls(call) < k) break;
    }
  }
}

TEST_F(BankStoreTest, LockedBanksAreLocked) {
  write(Order::kExpertByExpert, 0);
  constexpr std::array kOne = {kLocked, kPageable, kPageable};
  const auto banks = load({.residencies = kOne});
  ASSERT_TRUE(banks);
  expect_bank(*banks, 0);
  expect_bank(*banks, 2);
  if (!banks->note().empty()) {  // where the limit is lower than a bank
    EXPECT_NE(banks->note().find("1 of 1 banks stay pageable"), std::string::npos);
    EXPECT_EQ(banks->locked_bytes(), 0u);
    return;
  }
  EXPECT_GE(banks->locked_bytes(), size_t{kExperts} * 11'100);
  EXPECT_LT(banks->locked_bytes(), size_t{2} * kExperts * 11'100);
}

TEST_F(BankStoreTest, ADamagedOrMissingExpertIsNamed) {
  write(Order::kExpertByExpert, 0);
  checkpoint_.tensors.erase("layers.2.experts.7.up");
  constexpr std::array kAll = {kPageable, kPageable, kPageable};
  const auto missing = BankStore::load(checkpoint_, {.residencies = kAll});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("layers.2.experts.7.up"), std::string::npos);
  // Where that layer is somebody else's nobody misses it.
  constexpr std::array kFirst = {kPageable, kPageable, kDisk};
  expect_bank(*load({.residencies = kFirst}), 0);
}

// Experts of whole blocks of the disk, as packs have them: each with a checksum of all its bytes.
TEST_F(BankStoreTest, ChecksumsOfAPacksExpertsAreCompared) {
  constexpr size_t kBlock = 4096;
  write(Order::kExpertByExpert, 0);
  const std::string apart = read_whole_file(path_, kMiB).value();
  std::string bytes;
  for (const int layer : {0, 2}) {
    for (int index = 0; index < kExperts; ++index) {
      const size_t begin = bytes.size();
      for (const char* matrix : {"gate", "up", "down"}) {
        Extent& data =
            checkpoint_.tensors[fmt::format("layers.{}.experts.{}.{}", layer, index, matrix)].data;
        const size_t at = bytes.size();
        bytes += apart.substr(data.offset, data.bytes);
        data.offset = at;
      }
      bytes.resize((bytes.size() + kBlock - 1) / kBlock * kBlock, '#');
      checkpoint_.regions.push_back(
          {.name = fmt::format("expert {} of layer {}", index, layer),
           .extent = {0, begin, bytes.size() - begin},
           .xxh3 = XXH3_64bits(bytes.data() + begin, bytes.size() - begin)});
    }
  }
  std::ofstream(path_, std::ios::binary) << bytes;
  constexpr std::array kAll = {kPageable, kPageable, kPageable};
  const auto banks = load({.residencies = kAll});
  ASSERT_TRUE(banks);
  EXPECT_TRUE(banks->loading().is_verified);
  expect_bank(*banks, 0);

  checkpoint_.regions[kExperts + 3].xxh3 ^= 1;
  const auto damaged = BankStore::load(checkpoint_, {.residencies = kAll});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().kind, ErrorKind::kInvalidData);
  EXPECT_NE(damaged.error().message.find("expert 3 of layer 2"), std::string::npos);
}

TEST_F(BankStoreTest, AFileThatIsCutShortIsAnErrorAndNothingStaysPinned) {
  write(Order::kExpertByExpert, 0);
  constexpr std::array kPins = {kPinned, kPageable, kPinned};
  FakeDriver driver;
  PinStore pins(driver, {}, Log::none());
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  const auto cut = BankStore::load(checkpoint_, {.residencies = kPins, .pins = &pins});
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("changed while loading"), std::string::npos);
  EXPECT_EQ(driver.registered_bytes(), 0u);
}

}  // namespace
}  // namespace penstock
