#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace penstock {
namespace {

using Pairs = std::map<std::pair<int32_t, int32_t>, Merge>;

// The rule as it is told: of all neighbours merge the best-ranked, the leftmost of those, until
// none is left.
std::vector<int32_t> merged_plainly(std::vector<int32_t> ids, const Pairs& pairs) {
  while (true) {
    size_t best = ids.size();
    Merge best_merge;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = pairs.find({ids[i], ids[i + 1]});
      if (found != pairs.end() && found->second.rank < best_merge.rank) {
        best = i;
        best_merge = found->second;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = best_merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

struct RandomModel {
  Pairs pairs;
  Bpe bpe;
};

// Bytes a to c are tokens 0 to 2; every merge makes a new token of two that exist. Some ranks are
// shared.
RandomModel random_model(std::mt19937& random, size_t n_merges) {
  RandomModel made;
  for (size_t i = 0; i < n_merges; ++i) {
    const auto id = static_cast<int32_t>(3 + i);
    const auto any = [&] { return static_cast<int32_t>(random() % static_cast<unsigned>(id)); };
    made.pairs[{any(), any()}] = {static_cast<uint32_t>(i / 2), id};
  }
  BpeModel model;
  model.byte_level = true;
  for (size_t i = 0; i < 3; ++i) model.bytes['a' + i] = static_cast<int32_t>(i);
  model.merges = MergeTable(made.pairs.size());
  for (const auto& [pair, merge] : made.pairs) model.merges.insert(pair.first, pair.second, merge);
  made.bpe = Bpe(std::move(model));
  return made;
}

TEST(Bpe, MergesAsTheRuleSaysForShortAndLongPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const RandomModel model = random_model(random, 1 + random() % 60);
    BpeScratch scratch;
    for (const size_t length : {1u, 2u, 3u, 9u, 31u, 32u, 33u, 34u, 150u}) {
      std::string piece(length, 'a');
      for (char& c : piece) c = "abc"[random() % 3];
      std::vector<int32_t> symbols;
      for (const char c : piece) symbols.push_back(c - 'a');
      const auto expected = merged_plainly(symbols, model.pairs);
      for (const char* pass : {"first", "from the cache"}) {
        std::vector<int32_t> ids;
        model.bpe.encode(piece, scratch, ids);
        EXPECT_EQ(ids, expected) << piece << ", " << pass << ", round " << round;
      }
    }
  }
}

// Merging neighbours by scanning all of them would take 10^12 steps here.
TEST(Bpe, ALongRunOfOneCharacterIsNotQuadratic) {
  BpeModel model;
  model.byte_level = true;
  model.bytes['a'] = 0;
  model.merges = MergeTable(10);
  for (int32_t id = 0; id < 10; ++id)
    model.merges.insert(id, id, {static_cast<uint32_t>(id), id + 1});
  const Bpe bpe(std::move(model));
  BpeScratch scratch;
  std::vector<int32_t> ids;
  bpe.encode(std::string(size_t{1} << 20, 'a'), scratch, ids);
  EXPECT_EQ(ids, std::vector<int32_t>(1024, 10));
}

TEST(Bpe, TheLastMergeOfAPairCounts) {
  MergeTable merges(2);
  merges.insert(1, 2, {0, 3});
  merges.insert(1, 2, {5, 4});
  EXPECT_EQ(merges.find(1, 2).rank, 5u);
  EXPECT_EQ(merges.find(1, 2).id, 4);
  EXPECT_EQ(merges.find(2, 1).rank, UINT32_MAX);
  EXPECT_EQ(MergeTable().find(1, 2).rank, UINT32_MAX);
}

TEST(PieceCache, KeepsWhatFitsAndTellsApartWhatDiffers) {
  PieceCache cache;
  const std::vector<int32_t> one = {1};
  const std::vector<int32_t> eight = {1, 2, 3, 4, 5, 6, 7, 8};
  cache.insert("a", one);
  cache.insert(std::string("a\0", 2), eight);
  cache.insert(std::string(28, 'x'), one);
  cache.insert(std::string(29, 'x'), one);
  cache.insert("nine", std::vector<int32_t>(9, 1));
  const auto found = [&](std::string_view piece) {
    const auto ids = cache.find(piece);
    return std::vector<int32_t>(ids.begin(), ids.end());
  };
  EXPECT_EQ(found("a"), one);
  EXPECT_EQ(found(std::string("a\0", 2)), eight);
  EXPECT_EQ(found(std::string(28, 'x')), one);
  EXPECT_TRUE(found(std::string(29, 'x')).empty());
  EXPECT_TRUE(found("nine").empty());
  EXPECT_TRUE(found("").empty());
}

}  // namespace
}  // namespace penstock
