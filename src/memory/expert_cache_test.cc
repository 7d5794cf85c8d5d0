#include "memory/expert_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/integers.h"
#include "base/units.h"
#include "memory/forecast_policy.h"
#include "memory/known_experts_test.h"
#include "memory/routing/replay.h"
#include "os/file.h"

namespace penstock {
namespace {

class ExpertCacheTest : public KnownExpertsTest {
 protected:
  std::unique_ptr<ExpertCache> make(int64_t n_slots) {
    auto layout = ExpertLayout::make(checkpoint_);
    EXPECT_TRUE(layout);
    auto cache = ExpertCache::make(checkpoint_, *std::move(layout), n_slots);
    EXPECT_TRUE(cache) << cache.error().message;
    return *std::move(cache);
  }

  // Takes all of a wave; the members that came.
  static std::vector<size_t> take_all(ExpertWave& wave, int layer, std::span<const int> experts) {
    std::vector<size_t> came;
    for (;;) {
      const auto landed = wave.next();
      EXPECT_TRUE(landed) << landed.error().message;
      if (!landed || landed->empty()) return came;
      for (const LeasedExpert& expert : *landed) {
        expect_expert(expert.matrices, layer, experts[expert.which]);
        came.push_back(expert.which);
      }
    }
  }
};

TEST_F(ExpertCacheTest, AnExpertThatLiesInOnePieceIsOneRead) {
  write(Order::kExpertByExpert, 4096 + 17);
  const ExpertLayout together = ExpertLayout::make(checkpoint_).value();
  EXPECT_EQ(together.n_experts(), 2 * kExperts);
  EXPECT_EQ(together.weight_bytes(), uint64_t{2} * kExperts * 11'100);
  EXPECT_EQ(together.parts({.layer = 2, .index = 5}).size(), 1u);
  write(Order::kMatrixByMatrix, 4096 + 17);
  const ExpertLayout apart = ExpertLayout::make(checkpoint_).value();
  EXPECT_EQ(apart.parts({.layer = 2, .index = 5}).size(), 3u);
  for (const ExpertLayout::Part& part : apart.parts({.layer = 2, .index = 5})) {
    EXPECT_EQ(part.offset % kDirectAlignment, 0u);
    EXPECT_EQ(part.bytes % kDirectAlignment, 0u);
    EXPECT_EQ(part.at % kDirectAlignment, 0u);
    EXPECT_LE(part.at + part.bytes, apart.slot_bytes());
  }
}

// Each expert of a pack is a region with a checksum.
TEST_F(ExpertCacheTest, ADamagedExpertIsAnErrorWhenItIsReadAndOthersGoOn) {
  write(Order::kExpertByExpert, 0);
  std::string bytes = read_whole_file(path_, kMiB).value();
  std::string packed;
  for (const int layer : {0, 2}) {
    for (int index = 0; index < kExperts; ++index) {
      const uint64_t begin = packed.size();
      for (const char* matrix : {"gate", "up", "down"}) {
        Extent& data =
            checkpoint_.tensors[fmt::format("layers.{}.experts.{}.{}", layer, index, matrix)].data;
        const uint64_t at = packed.size();
        packed += bytes.substr(data.offset, data.bytes);
        data.offset = at;
      }
      packed.resize(round_up(packed.size(), kDirectAlignment), '\0');
      const uint64_t n = packed.size() - begin;
      checkpoint_.regions.push_back({.name = fmt::format("layers.{}.experts.{}", layer, index),
                                     .extent = {0, begin, n},
                                     .xxh3 = XXH3_64bits(packed.data() + begin, n)});
    }
  }
  std::ofstream(path_, std::ios::binary) << packed;
  ++checkpoint_.regions[3].xxh3;  // as if one of its bytes were another
  const auto cache = make(4);
  constexpr std::array kExpertsOfWave = {2, 3, 4};
  for (int round = 0; round < 2; ++round) {
    ExpertWave wave = cache->begin(0, kExpertsOfWave);
    Result<std::vector<LeasedExpert>> landed = wave.next();
    while (landed && !landed->empty()) landed = wave.next();
    ASSERT_FALSE(landed) << "round " << round;
    EXPECT_EQ(landed.error().kind, ErrorKind::kInvalidData);
    EXPECT_NE(landed.error().message.find("layers.0.experts.3 has checksum"), std::string::npos);
  }
  constexpr std::array kOthers = {2, 4, 5};
  ExpertWave wave = cache->begin(0, kOthers);
  EXPECT_EQ(take_all(wave, 0, kOthers).size(), 3u);
}

TEST_F(ExpertCacheTest, AMissingExpertIsNamed) {
  write(Order::kExpertByExpert, 0);
  checkpoint_.tensors.erase("layers.2.experts.7.up");
  const auto layout = ExpertLayout::make(checkpoint_);
  ASSERT_FALSE(layout);
  EXPECT_NE(layout.error().message.find("layers.2.experts.7.up"), std::string::npos);
}

TEST_F(ExpertCacheTest, HitsComeFirstAndAreNotReadAgain) {
  write(Order::kExpertByExpert, 100);
  const auto cache = make(6);
  const std::vector<int> first = {1, 2, 3};
  {
    ExpertWave wave = cache->begin(0, first);
    EXPECT_EQ(take_all(wave, 0, first).size(), 3u);
  }
  const uint64_t read = cache->counts().bytes_read;
  const std::vector<int> second = {9, 2, 1};
  ExpertWave wave = cache->begin(0, second);
  EXPECT_EQ(take_all(wave, 0, second), (std::vector<size_t>{1, 2, 0}));
  EXPECT_EQ(cache->counts().n_hits, 2);
  EXPECT_EQ(cache->counts().n_misses, 4);
  EXPECT_LT(cache->counts().bytes_read, 2 * read);  // one of them, where there had been three
}

TEST_F(ExpertCacheTest, WhatWasUsedMostAndLastStays) {
  write(Order::kExpertByExpert, 0);
  const auto cache = make(3);
  const auto use = [&](int layer, int expert) {
    const std::vector<int> experts = {expert};
    ExpertWave wave = cache->begin(layer, experts);
    take_all(wave, layer, experts);
  };
  for (int i = 0; i < 5; ++i) use(0, 4);
  use(2, 4);
  use(0, 7);
  use(2, 8);  // takes the place of (2, 4)
  const int64_t misses = cache->counts().n_misses;
  use(0, 4);
  use(0, 7);
  use(2, 8);
  EXPECT_EQ(cache->counts().n_misses, misses);
  use(2, 4);
  EXPECT_EQ(cache->counts().n_misses, misses + 1);
}

std::vector<ExpertGuess> guesses_of(std::span<const int> experts) {
  std::vector<ExpertGuess> guesses;
  for (const int expert : experts) guesses.push_back({.expert = expert, .rank = 0});
  return guesses;
}

TEST_F(ExpertCacheTest, WhatIsReadAheadIsThereAndReadOnce) {
  write(Order::kExpertByExpert, 0);
  const auto cache = make(16);
  constexpr std::array kNow = {0, 1};
  constexpr std::array kNext = {4, 5, 6};
  {
    ExpertWave wave = cache->begin(0, kNow);
    cache->prefetch(2, guesses_of(std::array{4, 5, 9}));
    EXPECT_EQ(take_all(wave, 0, kNow).size(), 2u);
  }
  ExpertWave wave = cache->begin(2, kNext);
  EXPECT_EQ(take_all(wave, 2, kNext).size(), 3u);
  EXPECT_EQ(cache->counts().n_prefetches, 3);
  EXPECT_EQ(cache->counts().n_prefetches_used, 2);
  EXPECT_EQ(cache->counts().n_hits + cache->counts().n_misses, 5);
}

TEST_F(ExpertCacheTest, GuessesThatDoNotComeTrueAreNoLongerRead) {
  write(Order::kExpertByExpert, 0);
  const auto cache = make(16);
  int64_t n_vain = 0;
  for (int i = 0; i < 2000; ++i) {
    const int guessed = i % kExperts;
    const std::array wanted = {(guessed + kExperts / 2) % kExperts};
    const int64_t before = cache->counts().n_prefetches;
    cache->prefetch(2, guesses_of(std::array{guessed}));
    n_vain = cache->counts().n_prefetches - before;
    ExpertWave wave = cache->begin(2, wanted);
    take_all(wave, 2, wanted);
  }
  EXPECT_EQ(n_vain, 0) << "none of two thousand came true";
}

TEST_F(ExpertCacheTest, ADamagedExpertThatIsReadAheadIsAnErrorWhenItIsWanted) {
  write(Order::kExpertByExpert, 0);
  const auto cache = make(16);
  constexpr std::array kLate = {11};
  std::filesystem::resize_file(path_, 100'000);
  cache->prefetch(2, guesses_of(kLate));
  for (int round = 0; round < 2; ++round) {
    ExpertWave wave = cache->begin(2, kLate);
    EXPECT_FALSE(wave.next()) << round;
  }
  constexpr std::array kEarly = {0};
  ExpertWave wave = cache->begin(0, kEarly);
  EXPECT_EQ(take_all(wave, 0, kEarly).size(), 1u);
}

// Whatever is asked for and read ahead, in any order and by any number of slots: each expert comes
// once, is the right one, and hits and misses add up.
TEST_F(ExpertCacheTest, RandomWavesBringEveryExpert) {
  for (const uint32_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    write(seed % 2 == 0 ? Order::kExpertByExpert : Order::kMatrixByMatrix, random() % 9000);
    for (const int64_t n_slots : {1, 2, 5, 11, 24, 99}) {
      const auto cache = make(n_slots);
      EXPECT_EQ(cache->n_slots(), std::min<int64_t>(n_slots, 2 * kExperts));
      int64_t n_asked = 0;
      for (int step = 0; step < 60; ++step) {
        const int layer = random() % 2 == 0 ? 0 : 2;
        std::vector<int> left(kExperts);
        for (int i = 0; i < kExperts; ++i) left[static_cast<size_t>(i)] = i;
        std::ranges::shuffle(left, random);
        left.resize(1 + random() % kExperts);
        n_asked += std::ssize(left);
        while (!left.empty()) {
          ExpertWave wave = cache->begin(layer, left);
          if (random() % 2 == 0) {
            std::vector<int> ahead(kExperts);
            std::iota(ahead.begin(), ahead.end(), 0);
            std::ranges::shuffle(ahead, random);
            ahead.resize(random() % kExperts);
            cache->prefetch(random() % 4 == 0 ? layer : 2 - layer, guesses_of(ahead));
          }
          ASSERT_FALSE(wave.members().empty());
          ASSERT_LE(std::ssize(wave.members()), cache->n_slots());
          std::vector<size_t> members(wave.members().begin(), wave.members().end());
          if (random() % 8 != 0) {  // or it is dropped while it is being read
            std::vector<size_t> came = take_all(wave, layer, left);
            std::ranges::sort(came);
            std::ranges::sort(members);
            EXPECT_EQ(came, members);
          }
          std::ranges::sort(members, std::greater());
          for (const size_t which : members) {
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(which));
          }
        }
      }
      EXPECT_EQ(cache->counts().n_hits + cache->counts().n_misses, n_asked);
    }
  }
}

// The replay of recorded routing says what the cache does.
TEST_F(ExpertCacheTest, HitsAreThoseThatAReplayFinds) {
  constexpr uint32_t kSeed = 17;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  write(Order::kExpertByExpert, 0);
  RoutingRecord record(
      {.model = "made up", .n_layers = kLayers, .n_experts = kExperts, .top_k = 2});
  for (int step = 0; step < 60; ++step) {
    record.begin_step(0, 1);
    for (const int layer : {0, 2}) {
      const int limit = 1 + static_cast<int>(random() % (kExperts - 1));
      record.add_visit(
          layer, std::vector{static_cast<int>(random() % static_cast<uint32_t>(limit)), limit});
    }
  }
  for (const int64_t n_slots : {3, 5, 12, 24}) {
    const auto cache = make(n_slots);
    for (const RoutingRecord::Visit& visit : record.visits()) {
      ExpertWave wave = cache->begin(visit.layer, record.experts(visit));
      take_all(wave, visit.layer, record.experts(visit));
    }
    const ReplayResult expected =
        replay(record, n_slots, std::make_unique<ForecastPolicy>(kLayers, kExperts, /*top_k=*/2));
    EXPECT_EQ(cache->counts().n_hits, expected.decode.n_hits) << n_slots;
    EXPECT_GT(cache->counts().n_hits, 0) << n_slots;
  }
}

TEST_F(ExpertCacheTest, AFileThatWasCutShortIsAnErrorAndOthersGoOn) {
  write(Order::kExpertByExpert, 0);
  const auto cache = make(4);
  const std::vector<int> early = {0}, late = {11};
  std::filesystem::resize_file(path_, 100'000);
  {
    ExpertWave wave = cache->begin(2, late);
    const auto landed = wave.next();
    ASSERT_FALSE(landed);
    EXPECT_NE(landed.error().text().find(path_.string()), std::string::npos);
  }
  {
    ExpertWave wave = cache->begin(0, early);
    EXPECT_EQ(take_all(wave, 0, early).size(), 1u);
  }
  ExpertWave again = cache->begin(2, late);
  EXPECT_FALSE(again.next());  // nothing of it was kept
}

}  // namespace
}  // namespace penstock
