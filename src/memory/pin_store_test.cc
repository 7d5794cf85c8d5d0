#include "memory/pin_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/integers.h"
#include "base/units.h"
#include "cuda/device_objects.h"
#include "cuda/fake_driver.h"

namespace penstock {
namespace {

AnonymousMemory bank_memory(size_t bytes) {
  auto memory = AnonymousMemory::reserve(bytes, OsPages::kNormal);
  EXPECT_TRUE(memory);
  return *std::move(memory);
}

std::vector<size_t> grant_sizes(const PinnedMemory& bank) {
  std::vector<size_t> sizes;
  for (const PinGrant& grant : bank.grants()) sizes.push_back(grant.end - grant.begin);
  return sizes;
}

int64_t n_registers(const FakeDriver& driver) { return driver.n_calls(DriverCall::kRegister); }

TEST(PinStore, AWholeBankIsOneCall) {
  FakeDriver driver;
  PinStore store(driver, {}, Log::none());
  {
    const PinnedMemory bank = store.pin(bank_memory(7 * kMiB + 5));
    EXPECT_EQ(grant_sizes(bank), (std::vector<size_t>{7 * kMiB + 5}));
    EXPECT_EQ(bank.pinned_bytes(), bank.bytes().size());
    EXPECT_EQ(store.report(), (PinReport{.n_banks = 1,
                                         .wished_bytes = 7 * kMiB + 5,
                                         .registered_bytes = 7 * kMiB + kPinPageBytes,
                                         .n_grants = 1,
                                         .n_calls = 1}));
    EXPECT_EQ(driver.registered_bytes(), store.report().registered_bytes);
  }
  EXPECT_EQ(driver.registered_bytes(), 0u);
  EXPECT_EQ(store.report(), (PinReport{.n_calls = 1}));
}

TEST(PinStore, WhatIsTooMuchAtOnceIsTakenInChunks) {
  FakeDriver driver({.pins = {.total_bytes = 256 * kMiB, .call_bytes = 64 * kMiB}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(512 * kMiB));
  EXPECT_EQ(grant_sizes(bank), std::vector<size_t>(4, 64 * kMiB));
  EXPECT_EQ(store.report().quota_bytes, 256 * kMiB);
  // 512, 256, 128; four of 64; then 64 and every half of it down to 64 KiB.
  EXPECT_EQ(n_registers(driver), 3 + 4 + 11);
}

TEST(PinStore, AQuotaIsUsedUpToTheSmallestChunk) {
  FakeDriver driver({.pins = {.total_bytes = 94 * kMiB + 300 * kKiB}});
  PinStore store(driver, {}, Log::none());
  std::vector<PinnedMemory> banks;
  for (int i = 0; i < 30; ++i) banks.push_back(store.pin(bank_memory(5 * kMiB + 12 * kKiB)));
  EXPECT_GT(driver.registered_bytes(), 94 * kMiB + 300 * kKiB - kSmallestPinBytes);
  EXPECT_EQ(store.report().quota_bytes, driver.registered_bytes());
}

TEST(PinStore, TheLadderEndsWithItsSmallestChunk) {
  FakeDriver driver({.pins = {.total_bytes = 0}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(300 * kKiB));
  std::vector<size_t> tried;
  for (const PinCall& call : driver.pin_calls()) tried.push_back(call.bytes);
  EXPECT_EQ(tried, (std::vector<size_t>{300 * kKiB, 148 * kKiB, 72 * kKiB, 64 * kKiB}));
  const PinnedMemory small = store.pin(bank_memory(5));
  EXPECT_EQ(driver.pin_calls().back().bytes, 5u);
}

TEST(PinStore, OnceTheQuotaIsSpentABankIsOneCall) {
  FakeDriver driver({.pins = {.total_bytes = 10 * kMiB, .is_sticky = true}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory first = store.pin(bank_memory(16 * kMiB));
  EXPECT_EQ(first.pinned_bytes(), 0u);  // the first refusal is the last word
  const int64_t n_first = n_registers(driver);
  EXPECT_EQ(n_first, 9);  // 16 MiB and every half of it down to 64 KiB
  std::vector<PinnedMemory> banks;
  for (int i = 1; i <= 20; ++i) {
    banks.push_back(store.pin(bank_memory(16 * kMiB)));
    ASSERT_EQ(n_registers(driver), n_first + i);
    ASSERT_EQ(driver.pin_calls().back().bytes, kSmallestPinBytes);
  }
  EXPECT_EQ(store.report().quota_bytes, 0u);
}

TEST(PinStore, AQuotaThatGrowsAgainIsFoundOut) {
  FakeDriver driver({.pins = {.total_bytes = 0}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory refused = store.pin(bank_memory(64 * kMiB));
  EXPECT_EQ(store.report().quota_bytes, 0u);
  driver.set_pin_total(kGiB);
  const PinnedMemory growing = store.pin(bank_memory(64 * kMiB));
  EXPECT_EQ(growing.pinned_bytes(), 64 * kMiB);
  EXPECT_LE(growing.grants().size(), 11u);
  EXPECT_EQ(store.report().quota_bytes, 64 * kMiB);
  const PinnedMemory whole = store.pin(bank_memory(32 * kMiB));
  EXPECT_EQ(whole.grants().size(), 1u);
}

TEST(PinStore, WhatOneCallMayTakeIsLearnedAndTriedUpwards) {
  FakeDriver driver({.pins = {.call_bytes = 2 * kMiB}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory first = store.pin(bank_memory(32 * kMiB));
  EXPECT_EQ(n_registers(driver), 4 + 16);  // 32, 16, 8 and 4 are refused
  const PinnedMemory second = store.pin(bank_memory(32 * kMiB));
  EXPECT_EQ(n_registers(driver), 4 + 16 + 1 + 16);  // 4 is
  EXPECT_EQ(first.pinned_bytes() + second.pinned_bytes(), 64 * kMiB);
  EXPECT_FALSE(store.report().quota_bytes);
}

TEST(PinStore, ADriverThatGrantsOnlyCrumbsIsNotAskedForGood) {
  FakeDriver driver({.pins = {.call_bytes = kSmallestPinBytes}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(kGiB));
  EXPECT_EQ(n_registers(driver), kMaxPinCallsPerBank);
  EXPECT_EQ(bank.pinned_bytes(), driver.registered_bytes());
  EXPECT_GT(bank.pinned_bytes(), 60 * kMiB);
}

TEST(PinStore, NothingIsAskedWherePinningIsSwitchedOff) {
  FakeDriver driver;
  PinStore store(driver, {.is_enabled = false}, Log::none());
  {
    const PinnedMemory bank = store.pin(bank_memory(kMiB));
    EXPECT_EQ(bank.bytes().size(), kMiB);
    EXPECT_TRUE(bank.grants().empty());
  }
  EXPECT_EQ(driver.n_calls(), 0);
}

TEST(PinStore, TheBudgetIsExact) {
  for (const size_t budget : {size_t{0}, size_t{4095}, size_t{4096}, size_t{40'000}, 3 * kMiB,
                              3 * kMiB + 4096, 5 * kMiB, 100 * kMiB}) {
    SCOPED_TRACE(budget);
    FakeDriver driver;
    PinStore store(driver, {.budget_bytes = budget}, Log::none());
    std::vector<PinnedMemory> banks;
    for (int i = 0; i < 3; ++i) banks.push_back(store.pin(bank_memory(kMiB + 1)));
    const size_t wished = 3 * (kMiB + 4096);
    EXPECT_EQ(driver.registered_bytes(), std::min(wished, budget / 4096 * 4096));
    EXPECT_LE(n_registers(driver), 3);
    EXPECT_EQ(store.report().n_refusals, 0);
    // What is given back can be had again.
    banks.erase(banks.begin());
    banks.push_back(store.pin(bank_memory(kMiB + 1)));
    EXPECT_EQ(driver.registered_bytes(), std::min(wished, budget / 4096 * 4096));
  }
}

TEST(PinStore, GrantsBeginWithTheGranularity) {
  FakeDriver driver({.pins = {.call_bytes = 300 * kKiB}});
  PinStore store(driver, {.budget_bytes = 900 * kKiB, .granularity_bytes = 64 * kKiB}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(3 * kMiB));
  for (const PinGrant& grant : bank.grants()) {
    EXPECT_EQ(grant.begin % (64 * kKiB), 0u);
    EXPECT_EQ(grant.end % (64 * kKiB), 0u);
  }
  EXPECT_EQ(driver.registered_bytes(), 896 * kKiB);
}

TEST(PinStore, ARefusalLeavesNoErrorPending) {
  FakeDriver driver(
      {.pins = {.total_bytes = kMiB}, .refusals = {{.call = DriverCall::kUnregister}}});
  PinStore store(driver, {}, Log::none());
  {
    const PinnedMemory bank = store.pin(bank_memory(3 * kMiB));
    EXPECT_GT(store.report().n_refusals, 0);
    EXPECT_TRUE(driver.memory_info());
  }
  EXPECT_TRUE(driver.memory_info());
}

TEST(PinStore, GrantsAreGivenBackInReverseAtTheirAddresses) {
  FakeDriver driver({.pins = {.call_bytes = kMiB}});
  PinStore store(driver, {}, Log::none());
  std::vector<const std::byte*> granted;
  {
    const PinnedMemory bank = store.pin(bank_memory(5 * kMiB));
    for (const PinGrant& grant : bank.grants()) granted.push_back(&bank.bytes()[grant.begin]);
    ASSERT_GE(granted.size(), 5u);
  }
  std::vector<const std::byte*> returned;
  for (const PinCall& call : driver.pin_calls()) {
    if (!call.is_register) returned.push_back(call.begin);
  }
  std::ranges::reverse(returned);
  EXPECT_EQ(returned, granted);
}

TEST(PinStore, WhatTheDriverKeepsStaysInMemoryAndIsSaidOnce) {
  FakeDriver driver({.pins = {.call_bytes = kMiB},
                     .refusals = {{.call = DriverCall::kUnregister, .first = 2},
                                  {.call = DriverCall::kUnregister, .first = 6}}});
  testing::internal::CaptureStderr();
  PinStore store(driver, {.budget_bytes = 4 * kMiB}, Log::to_stderr());
  std::byte* kept = nullptr;
  {
    const PinnedMemory bank = store.pin(bank_memory(3 * kMiB));
    ASSERT_EQ(grant_sizes(bank), std::vector<size_t>(4, 768 * kKiB));
    kept = &bank.bytes()[2 * 768 * kKiB];
    *kept = std::byte{42};
  }
  EXPECT_EQ(*kept, std::byte{42});  // or it is not mapped any more, and this crashes
  EXPECT_EQ(driver.registered_bytes(), 768 * kKiB);
  EXPECT_EQ(store.report().stuck_bytes, 768 * kKiB);
  // It still takes from the budget.
  {
    const PinnedMemory bank = store.pin(bank_memory(4 * kMiB));
  }
  EXPECT_EQ(driver.registered_bytes(), store.report().registered_bytes);
  EXPECT_GT(store.report().stuck_bytes, 768 * kKiB);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  EXPECT_NE(log.find("does not unregister 768.0 KiB"), std::string::npos) << log;
}

TEST(PinStore, ABankCanMoveAndBeReplaced) {
  FakeDriver driver;
  PinStore store(driver, {}, Log::none());
  PinnedMemory first = store.pin(bank_memory(kMiB));
  PinnedMemory second = store.pin(bank_memory(2 * kMiB));
  const PinnedMemory third(std::move(first));
  second = store.pin(bank_memory(4 * kMiB));
  EXPECT_EQ(third.pinned_bytes(), kMiB);
  EXPECT_EQ(driver.registered_bytes(), 5 * kMiB);
  EXPECT_EQ(store.report().n_banks, 2u);
}

TEST(PinnedMemory, PiecesAreCutWhereGrantsAre) {
  FakeDriver driver({.pins = {.total_bytes = 3 * kMiB, .call_bytes = kMiB}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(4 * kMiB));
  ASSERT_EQ(grant_sizes(bank), std::vector<size_t>(3, kMiB));
  using Pieces = std::vector<CopyPiece>;
  EXPECT_EQ(bank.pieces(0, 4 * kMiB), (Pieces{{0, kMiB, true},
                                              {kMiB, 2 * kMiB, true},
                                              {2 * kMiB, 3 * kMiB, true},
                                              {3 * kMiB, 4 * kMiB, false}}));
  EXPECT_EQ(bank.pieces(5, 6), (Pieces{{5, 6, true}}));
  EXPECT_EQ(bank.pieces(kMiB - 1, kMiB + 1),
            (Pieces{{kMiB - 1, kMiB, true}, {kMiB, kMiB + 1, true}}));
  EXPECT_EQ(bank.pieces(kMiB, 2 * kMiB), (Pieces{{kMiB, 2 * kMiB, true}}));
  EXPECT_EQ(bank.pieces(3 * kMiB, 3 * kMiB + 7), (Pieces{{3 * kMiB, 3 * kMiB + 7, false}}));
  EXPECT_TRUE(bank.pieces(7, 7).empty());
}

// What pieces() is for: a partly pinned bank goes to the device by copies that the driver takes.
TEST(PinnedMemory, APartlyPinnedBankIsCopiedPieceByPiece) {
  FakeDriver driver({.pins = {.total_bytes = 3 * kMiB, .call_bytes = kMiB}});
  PinStore store(driver, {}, Log::none());
  const PinnedMemory bank = store.pin(bank_memory(4 * kMiB));
  for (size_t i = 0; i < bank.bytes().size(); ++i) bank.bytes()[i] = std::byte(i % 251);
  const auto memory = DeviceMemory::allocate(driver, bank.bytes().size());
  const auto stream = Stream::create(driver);
  const auto copy = [&](size_t begin, size_t end) {
    return settled(driver,
                   driver.copy_to_device(memory->bytes().subspan(begin, end - begin),
                                         bank.bytes().subspan(begin, end - begin), stream->id()));
  };
  EXPECT_FALSE(copy(0, 4 * kMiB));
  for (const CopyPiece& piece : bank.pieces(0, 4 * kMiB)) {
    EXPECT_TRUE(copy(piece.begin, piece.end));
  }
  std::vector<std::byte> back(bank.bytes().size());
  ASSERT_TRUE(driver.copy_to_host(back, memory->bytes(), stream->id()));
  ASSERT_TRUE(driver.synchronise(stream->id()));
  EXPECT_TRUE(std::ranges::equal(back, bank.bytes()));
}

TEST(DescribePins, ALoadIsOneLineThatSaysWhatBoundsIt) {
  const auto describe = [](const FakePinLimits& limits, const PinOptions& options) {
    FakeDriver driver({.pins = limits});
    PinStore store(driver, options, Log::none());
    const PinnedMemory bank = store.pin(bank_memory(128 * kMiB));
    return describe_pins(store.report(), options);
  };
  EXPECT_EQ(describe({}, {}), "page-locked 128.0 MiB of 128.0 MiB of banks in 1 grants");
  EXPECT_EQ(describe({}, {.is_enabled = false}),
            "page-locked none of 128.0 MiB of banks: PENSTOCK_NO_PINNED is set");
  EXPECT_EQ(describe({}, {.budget_bytes = 48 * kMiB}),
            "page-locked 48.0 MiB of 128.0 MiB of banks in 1 grants; --pin-budget allows 48.0 MiB");
  EXPECT_EQ(
      describe({.total_bytes = 48 * kMiB}, {}),
      "page-locked 48.0 MiB of 128.0 MiB of banks in 2 grants; the driver grants no more than "
      "48.0 MiB (cannot page-lock 64.0 KiB: out of memory), and copies from the rest are slower "
      "(raise the limit of locked memory, or ask for no more with --pin-budget 48MiB)");
  EXPECT_EQ(
      describe({.call_bytes = 64 * kKiB}, {}),
      "page-locked 63.3 MiB of 128.0 MiB of banks in 1013 grants; the driver grants too little "
      "at a time (cannot page-lock 128.0 KiB: out of memory)");
}

TEST(PinStore, ALoadIsOneLineInTheLog) {
  for (const bool is_refused : {false, true}) {
    FakeDriver driver({.pins = {.total_bytes = is_refused ? kMiB : kGiB}});
    testing::internal::CaptureStderr();
    PinStore store(driver, {}, Log::to_stderr());
    std::vector<PinnedMemory> banks;
    for (int i = 0; i < 5; ++i) banks.push_back(store.pin(bank_memory(kMiB)));
    store.log_load();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
    EXPECT_NE(log.find(is_refused ? " warning page-locked" : " info page-locked"),
              std::string::npos)
        << log;
  }
}

// A random system, random wishes, and after each of them everything that must always hold.
class RandomLoad {
 public:
  explicit RandomLoad(uint64_t seed)
      : random_(seed),
        options_(random_options()),
        script_(random_script()),
        driver_(script_),
        store_(driver_, options_, Log::none()) {}

  void run(int n_steps) {
    for (int i = 0; i < n_steps && !testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(i);
      step();
      check();
    }
    while (!banks_.empty() && !testing::Test::HasFatalFailure()) drop(banks_.size() - 1);
    check();
    const PinReport report = store_.report();
    EXPECT_EQ(report.registered_bytes, report.stuck_bytes);
    check_calls();
  }

 private:
  size_t upto(size_t n) { return random_() % (n + 1); }
  bool one_in(size_t n) { return random_() % n == 0; }

  PinOptions random_options() {
    PinOptions options;
    if (!one_in(3)) options.budget_bytes = upto(200 * kMiB);
    if (one_in(3)) options.granularity_bytes = 64 * kKiB;
    return options;
  }

  FakeDriverOptions random_script() {
    FakeDriverOptions script{.seed = random_()};
    if (!one_in(3)) script.pins.total_bytes = upto(150 * kMiB);
    if (one_in(3)) script.pins.call_bytes = upto(20 * kMiB);
    script.pins.is_sticky = one_in(4);
    if (one_in(4)) script.pins.lost_bytes_per_call = upto(kMiB);
    if (one_in(4)) script.context_bytes = upto(20 * kMiB);
    script.leaves_errors_pending = !one_in(4);
    is_plain_ = !script.pins.is_sticky && script.pins.lost_bytes_per_call == 0;
    for (size_t i = upto(3); i > 0; --i) {
      const auto call = one_in(2) ? DriverCall::kRegister : DriverCall::kUnregister;
      script.refusals.push_back({.call = call,
                                 .first = 1 + static_cast<int64_t>(upto(40)),
                                 .count = 1 + static_cast<int64_t>(upto(5))});
      is_plain_ = false;
    }
    return script;
  }

  void step() {
    if (one_in(12)) {
      driver_.set_pin_total(upto(150 * kMiB));
      is_plain_ = false;
    } else if (!banks_.empty() && one_in(4)) {
      drop(upto(banks_.size() - 1));
    } else {
      pin(1 + upto(one_in(4) ? 200 * kKiB : 40 * kMiB));
    }
  }

  void pin(size_t bytes) {
    const int64_t n_before = n_registers(driver_);
    banks_.push_back(store_.pin(bank_memory(bytes)));
    const int64_t n_calls = n_registers(driver_) - n_before;
    ASSERT_LE(n_calls, kMaxPinCallsPerBank);
    const auto n_chunks = static_cast<int64_t>(banks_.back().grants().size());
    // Ten halvings lead from 40 MiB to 64 KiB, each meets two refusals at most.
    ASSERT_LE(n_calls - n_chunks, 22);
    if (is_plain_) check_is_enough();
  }

  // Without tricks, nothing that could be had is left but for less than the smallest chunk.
  void check_is_enough() const {
    const PinReport report = store_.report();
    if (script_.pins.call_bytes < 2 * kMiB) return;  // and the number of calls is no bound
    const size_t quota =
        script_.pins.total_bytes == FakePinLimits::kNone
            ? FakePinLimits::kNone
            : script_.pins.total_bytes - std::min(script_.pins.total_bytes, script_.context_bytes);
    const size_t bound = std::min(quota, options_.budget_bytes);
    const PinnedMemory& bank = banks_.back();
    if (bank.pinned_bytes() == bank.bytes().size()) return;
    ASSERT_GT(report.registered_bytes + kSmallestPinBytes, bound);
  }

  void drop(size_t index) {
    std::vector<const std::byte*> granted;
    for (const PinGrant& grant : banks_[index].grants()) {
      granted.push_back(&banks_[index].bytes()[grant.begin]);
    }
    const size_t n_before = driver_.pin_calls().size();
    std::swap(banks_[index], banks_.back());
    banks_.pop_back();
    const auto calls = driver_.pin_calls();
    ASSERT_EQ(calls.size(), n_before + granted.size());
    for (size_t i = 0; i < granted.size(); ++i) {
      ASSERT_FALSE(calls[n_before + i].is_register);
      ASSERT_EQ(calls[n_before + i].begin, granted[granted.size() - 1 - i]);
    }
  }

  void check() {
    const PinReport report = store_.report();
    ASSERT_EQ(report.registered_bytes, driver_.registered_bytes());
    ASSERT_LE(report.registered_bytes, options_.budget_bytes);
    ASSERT_EQ(report.n_banks, banks_.size());
    ASSERT_FALSE(driver_.take_pending_error());
    size_t n_grants = 0;
    size_t wished = 0;
    size_t charged = report.stuck_bytes;
    for (const PinnedMemory& bank : banks_) {
      check_bank(bank);
      n_grants += bank.grants().size();
      wished += bank.bytes().size();
      for (const size_t bytes : grant_sizes(bank)) charged += round_up(bytes, kPinPageBytes);
    }
    ASSERT_EQ(report.n_grants, n_grants);
    ASSERT_EQ(report.wished_bytes, wished);
    ASSERT_EQ(report.registered_bytes, charged);
    ASSERT_LE(report.quota_bytes.value_or(0), options_.budget_bytes);
  }

  void check_bank(const PinnedMemory& bank) const {
    size_t end = 0;
    for (const PinGrant& grant : bank.grants()) {
      ASSERT_EQ(grant.begin, end);
      ASSERT_GT(grant.end, grant.begin);
      ASSERT_EQ(grant.begin % options_.granularity_bytes, 0u);
      ASSERT_LE(grant.end, bank.bytes().size());
      ASSERT_TRUE(
          driver_.is_registered(bank.bytes().subspan(grant.begin, grant.end - grant.begin)));
      end = grant.end;
    }
  }

  // No call asks for memory that is registered already, or gives back what is not.
  void check_calls() const {
    std::map<const std::byte*, size_t> live;
    for (const PinCall& call : driver_.pin_calls()) {
      if (!call.is_register) {
        ASSERT_TRUE(live.contains(call.begin));
        if (call.was_granted) live.erase(call.begin);
        continue;
      }
      const auto next = live.lower_bound(call.begin);
      ASSERT_TRUE(next == live.end() || call.begin + call.bytes <= next->first);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= call.begin);
      if (call.was_granted) live[call.begin] = call.bytes;
    }
    size_t n_stuck_bytes = 0;
    for (const auto& [begin, bytes] : live) n_stuck_bytes += round_up(bytes, kPinPageBytes);
    ASSERT_EQ(n_stuck_bytes, store_.report().stuck_bytes);
  }

  std::mt19937_64 random_;
  PinOptions options_;
  bool is_plain_ = true;
  FakeDriverOptions script_;
  FakeDriver driver_;
  PinStore store_;
  std::vector<PinnedMemory> banks_;
};

TEST(PinStore, RandomSystemsAndWishesKeepEveryPromise) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomLoad(seed).run(/*n_steps=*/30);
    if (HasFatalFailure()) return;
  }
}

TEST(PinStore, ThreadsPinAndGiveBackSideBySide) {
  FakeDriver driver({.pins = {.total_bytes = 20 * kMiB, .call_bytes = kMiB}});
  PinStore store(driver, {.budget_bytes = 16 * kMiB}, Log::none());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<PinnedMemory> banks;
      for (size_t j = 0; j < 20; ++j) {
        banks.push_back(store.pin(bank_memory((j * 7 + static_cast<size_t>(i)) % 5 * kMiB + 1)));
        if (banks.size() > 2) banks.erase(banks.begin());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(driver.registered_bytes(), 0u);
  EXPECT_EQ(store.report().registered_bytes, 0u);
}

TEST(PinStoreDeathTest, NoBankOutlivesTheStore) {
  EXPECT_DEATH(
      {
        FakeDriver driver;
        auto store = std::make_unique<PinStore>(driver, PinOptions{}, Log::none());
        const PinnedMemory bank = store->pin(bank_memory(kMiB));
        store.reset();
      },
      "outlives the store");
}

}  // namespace
}  // namespace penstock
