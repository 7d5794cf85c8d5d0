// Prefixes that leave the pool for a slower tier and come back: no answer changes, nobody else
// waits, no page is lost.
#include "engine/prefix_spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core_rig.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "memory/kv_spill/kv_spill.h"

namespace penstock {
namespace {

constexpr SchedulerOptions kFixedBudget = {.prefill = {.share = 0}};
constexpr size_t kFakePageBytes = kPageTokens * sizeof(int32_t);

// A tier that keeps everything, and brings pages back when the test says so.
class FakeTier final : public KvTier {
 public:
  size_t page_bytes() const override { return kFakePageBytes; }
  const ChainSecret& secret() const override { return secret_; }
  bool has(const ChainKey& key) const override { return pages.contains(key); }
  bool has_room() const override { return takes; }
  bool takes_pages() const override { return takes; }
  bool keep(const ChainPage& page) override {
    if (!takes) return false;
    EXPECT_TRUE(!pages.contains(page.key) || std::ranges::equal(pages[page.key], page.bytes));
    pages[page.key] = {page.bytes.begin(), page.bytes.end()};
    return true;
  }
  void restore(uint64_t id, std::vector<ChainKey> keys,
               std::vector<std::span<std::byte>> memory) override {
    asked.push_back({id, std::move(keys), std::move(memory)});
    ++n_asked;
  }
  std::vector<Restored> take_restored() override { return std::exchange(restored_, {}); }
  bool has_restored() const override { return !restored_.empty(); }
  void forget_all() override { pages.clear(); }
  void set_listener(std::function<void()> /*listener*/) override {}
  KvTierCounts counts() const override { return {}; }

  // Answers the oldest question with at most n pages.
  void bring(size_t n) {
    const Asked& first = asked.front();
    n = std::min(n, first.keys.size());
    for (size_t i = 0; i < n; ++i) {
      std::ranges::copy(pages.at(first.keys[i]), first.memory[i].begin());
    }
    restored_.push_back({first.id, n});
    asked.pop_front();
  }

  struct Asked {
    uint64_t id;
    std::vector<ChainKey> keys;
    std::vector<std::span<std::byte>> memory;
  };
  std::map<ChainKey, std::vector<std::byte>> pages;
  std::deque<Asked> asked;
  int n_asked = 0;
  bool takes = true;

 private:
  const ChainSecret secret_ = make_chain_secret();
  std::vector<Restored> restored_;
};

constexpr size_t kAllPages = 1'000'000;

// Counts what the model computes. A base, so that it is there before the model.
struct TierAndCounter {
  FakeModelOptions counting(FakeModelOptions model) const {
    model.on_step = [count = n_computed](std::span<const SequenceSlice> batch) -> Result<void> {
      for (const SequenceSlice& slice : batch) *count += static_cast<int64_t>(slice.tokens.size());
      return {};
    };
    return model;
  }
  std::unique_ptr<FakeTier> owned = std::make_unique<FakeTier>();
  FakeTier& tier = *owned;
  std::shared_ptr<int64_t> n_computed = std::make_shared<int64_t>(0);
};

struct SpillRig : TierAndCounter, Rig {
  explicit SpillRig(int64_t n_pages = 64, SchedulerOptions options = kFixedBudget)
      : Rig(counting({.n_pages = n_pages}), options, std::move(owned)) {}

  // Until everybody waits for the tier, or is done.
  void run() {
    for (int i = 0; core.step(); ++i) ASSERT_LT(i, 100'000);
  }
  void run_bringing(size_t n) {
    for (int i = 0; run(), !core.idle(); ++i) {
      ASSERT_LT(i, 1000);
      ASSERT_FALSE(tier.asked.empty()) << "everybody waits, for nothing";
      tier.bring(n);
    }
    while (!tier.asked.empty()) tier.bring(n);
    core.step();
    const PagePool& pool = core.scheduler().pool();
    EXPECT_EQ(pool.n_free() + pool.n_idle(), pool.n_all()) << "lost pages";
  }
  // Leaves the prompt's pages to the tier alone.
  void compute_and_evict(const GenerationRequest& request) {
    send(request);
    run_bringing(kAllPages);
    while (core.can_spill()) core.spill_one();
    const auto pages = tier.pages;
    core.drop_cache();
    tier.pages = pages;
    *n_computed = 0;
  }
};

GenerationRequest scoped(GenerationRequest request, std::string scope) {
  request.prefix_scope = std::move(scope);
  return request;
}

TEST(PrefixSpills, BringBackFullPagesAndComputeTheRest) {
  for (const size_t n :
       {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{128}, size_t{129}, size_t{300}}) {
    SCOPED_TRACE(n);
    SpillRig rig;
    const auto prompt = random_prompt(1, n);
    rig.compute_and_evict(greedy(prompt, 1));
    const auto client = rig.send(greedy(prompt, 20));
    rig.run_bringing(kAllPages);
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 20));
    const auto n_pages = (static_cast<int64_t>(n) - 1) / kPageTokens;
    EXPECT_EQ(n_cached(client), n_pages * kPageTokens) << "the last token is always computed";
    EXPECT_EQ(rig.tier.n_asked, n_pages > 0 ? 1 : 0);
    EXPECT_EQ(*rig.n_computed, static_cast<int64_t>(n) - n_cached(client) + 19);
  }
}

TEST(PrefixSpills, WhatIsEvictedIsGivenAway) {
  SpillRig rig(/*n_pages=*/8);
  const auto prompt = random_prompt(1, 5 * kPageTokens + 3);
  rig.send(greedy(prompt, 2));
  rig.run_bringing(kAllPages);
  rig.send(greedy(random_prompt(2, 7 * kPageTokens + 3), 2));
  rig.run_bringing(kAllPages);
  EXPECT_GE(rig.tier.pages.size(), 5U);
  const auto client = rig.send(greedy(prompt, 30));
  rig.run_bringing(kAllPages);
  EXPECT_EQ(client.events->tokens, plain_answer(prompt, 30));
  EXPECT_EQ(n_cached(client), 5 * kPageTokens);
}

TEST(PrefixSpills, WhatComesBackIsOnlyWhatIsMissing) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 5 * kPageTokens + 1);
  rig.compute_and_evict(greedy(prompt, 1));
  // The first two pages are computed again by somebody who begins alike.
  auto other = prompt;
  other.resize(2 * kPageTokens);
  rig.tier.takes = false;
  const auto pages = std::exchange(rig.tier.pages, {});
  rig.send(greedy(other, 1));
  rig.run_bringing(kAllPages);
  rig.tier.pages = pages;
  const auto client = rig.send(greedy(prompt, 3));
  rig.run();
  ASSERT_EQ(rig.tier.asked.size(), 1U);
  EXPECT_EQ(rig.tier.asked.front().keys.size(), 3U);
  rig.run_bringing(kAllPages);
  EXPECT_EQ(n_cached(client), 5 * kPageTokens);
  EXPECT_EQ(client.events->tokens, plain_answer(prompt, 3));
}

TEST(PrefixSpills, ScopesDoNotSeeEachOther) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 200);
  rig.compute_and_evict(scoped(greedy(prompt, 1), "key alice"));
  for (const std::string scope : {"key bob", ""}) {
    const auto client = rig.send(scoped(greedy(prompt, 5), scope));
    rig.run_bringing(kAllPages);
    EXPECT_EQ(n_cached(client), 0) << scope;
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 5));
  }
  EXPECT_EQ(rig.tier.n_asked, 0);
  const auto client = rig.send(scoped(greedy(prompt, 5), "key alice"));
  rig.run_bringing(kAllPages);
  EXPECT_EQ(n_cached(client), 3 * kPageTokens);
}

TEST(PrefixSpills, WhoSharesNothingSpillsNothing) {
  SpillRig rig;
  auto request = greedy(random_prompt(1, 200), 5);
  request.use_prefix_cache = false;
  rig.send(request);
  rig.run_bringing(kAllPages);
  EXPECT_TRUE(rig.tier.pages.empty());
  rig.compute_and_evict(greedy(request.prompt, 1));
  const auto client = rig.send(request);
  rig.run_bringing(kAllPages);
  EXPECT_EQ(n_cached(client), 0);
  EXPECT_EQ(rig.tier.n_asked, 0);
}

TEST(PrefixSpills, PagesThatDoNotComeAreComputed) {
  for (const size_t n_come : {size_t{0}, size_t{1}, size_t{4}}) {
    SCOPED_TRACE(n_come);
    SpillRig rig;
    const auto prompt = random_prompt(1, 5 * kPageTokens + 10);
    rig.compute_and_evict(greedy(prompt, 1));
    const auto client = rig.send(greedy(prompt, 20));
    rig.run_bringing(n_come);
    EXPECT_EQ(rig.tier.n_asked, 1) << "it is asked once";
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 20));
    EXPECT_EQ(n_cached(client), static_cast<int64_t>(n_come) * kPageTokens);
  }
}

TEST(PrefixSpills, OthersGoOnMeanwhile) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 5 * kPageTokens + 10);
  rig.compute_and_evict(greedy(prompt, 1));
  const auto running = rig.send(greedy(random_prompt(2, 100), 40));
  rig.core.step();
  const auto waiting = rig.send(greedy(prompt, 20));
  const auto behind = rig.send(greedy(random_prompt(3, 100), 20));
  rig.run();
  EXPECT_TRUE(running.events->over());
  EXPECT_TRUE(behind.events->over()) << "it came later, but waits for nobody";
  EXPECT_FALSE(waiting.events->begin);
  EXPECT_FALSE(rig.core.can_step());
  rig.tier.bring(kAllPages);
  EXPECT_TRUE(rig.core.can_step());
  rig.run_bringing(kAllPages);
  EXPECT_EQ(waiting.events->tokens, plain_answer(prompt, 20));
  EXPECT_EQ(behind.events->tokens, plain_answer(random_prompt(3, 100), 20));
}

TEST(PrefixSpills, WhoWantsTheSamePagesWaitsForThem) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 5 * kPageTokens + 10);
  rig.compute_and_evict(greedy(prompt, 1));
  std::vector<Rig::Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(rig.send(greedy(prompt, 10)));
  rig.run_bringing(kAllPages);
  EXPECT_EQ(rig.tier.n_asked, 1);
  for (const auto& client : clients) {
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 10));
    EXPECT_GE(n_cached(client), 5 * kPageTokens);
  }
}

TEST(PrefixSpills, WhoLeavesMeanwhileLeavesItsPagesToOthers) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 5 * kPageTokens + 10);
  rig.compute_and_evict(greedy(prompt, 1));
  const auto client = rig.send(greedy(prompt, 20));
  rig.run();
  client.aborted->store(true);
  rig.core.step();
  EXPECT_TRUE(client.events->over());
  EXPECT_TRUE(rig.core.idle());
  rig.tier.bring(kAllPages);
  const auto again = rig.send(greedy(prompt, 20));
  rig.run_bringing(kAllPages);
  EXPECT_EQ(rig.tier.n_asked, 1);
  EXPECT_EQ(n_cached(again), 5 * kPageTokens);
  EXPECT_EQ(again.events->tokens, plain_answer(prompt, 20));
}

TEST(PrefixSpills, DroppingTheCacheForgetsThemToo) {
  SpillRig rig;
  const auto prompt = random_prompt(1, 200);
  rig.compute_and_evict(greedy(prompt, 1));
  rig.core.drop_cache();
  const auto client = rig.send(greedy(prompt, 5));
  rig.run_bringing(kAllPages);
  EXPECT_EQ(n_cached(client), 0);
}

// Any crowd, any order of answers from the tier, any number of pages lost there: the answers are
// those of cold runs, and no page is lost here.
TEST(PrefixSpills, NoCrowdChangesAnAnswer) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    SpillRig rig(/*n_pages=*/8 + random() % 20,
                 {.prefill = {.most = 50 + static_cast<int64_t>(random() % 200), .share = 0}});
    struct Sent {
      GenerationRequest request;
      Rig::Client client;
      bool is_aborted = false;
    };
    std::vector<Sent> all;
    for (int i = 0; i < 400; ++i) {
      if (all.size() < 40 && random() % 6 == 0) {
        // Some of few conversations, as far as it fits.
        auto prompt = random_prompt(static_cast<uint32_t>(random() % 3), 1 + random() % 400);
        auto request = greedy(std::move(prompt), 1 + random() % 60);
        request.prefix_scope = random() % 4 == 0 ? "other" : "";
        auto client = rig.send(request);
        all.push_back({std::move(request), client});
      }
      if (!all.empty() && random() % 30 == 0) {
        Sent& sent = all[random() % all.size()];
        sent.client.aborted->store(true);
        sent.is_aborted = true;
      }
      rig.tier.takes = random() % 5 > 0;
      if (!rig.tier.asked.empty() && random() % 3 == 0) {
        rig.tier.bring(random() % 3 == 0 ? random() % 4 : kAllPages);
      }
      rig.core.step();
    }
    rig.run_bringing(kAllPages);
    for (const Sent& sent : all) {
      ASSERT_FALSE(sent.client.events->error);
      auto expected = plain_answer(sent.request.prompt, sent.request.max_tokens);
      if (sent.is_aborted) {
        expected.resize(std::min(expected.size(), sent.client.events->tokens.size()));
      }
      EXPECT_EQ(sent.client.events->tokens, expected);
    }
  }
}

class SpillFolderTest : public testing::Test {
 protected:
  SpillFolderTest() { std::filesystem::remove_all(folder_); }
  ~SpillFolderTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> start(int64_t n_pages) const {
    auto spill = KvSpill::open({.folder = folder_,
                                .max_bytes = uint64_t{1} << 20,
                                .page_bytes = kFakePageBytes,
                                .identity = "fake"},
                               Log::none());
    EXPECT_TRUE(spill);
    return Engine::start(std::make_unique<FakeModel>(FakeModelOptions{.n_pages = n_pages}), {kEos},
                         {}, Log::none(), *std::move(spill));
  }
  struct Answered {
    int64_t n_cached = 0;
    std::vector<int32_t> tokens = {};
  };
  static Answered ask(Engine& engine, GenerationRequest request) {
    const auto events = std::make_shared<EventQueue>();
    const auto handle = engine.submit(std::move(request), events);
    EXPECT_TRUE(handle);
    Answered answered;
    for (;;) {
      const Event event = events->pop();
      if (const auto* begin = std::get_if<BeginEvent>(&event)) {
        answered.n_cached = begin->n_prompt_cached;
      } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
        answered.tokens.push_back(token->id);
      } else {
        return answered;
      }
    }
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / "engine_spill_test";
};

TEST_F(SpillFolderTest, AnEngineFindsWhatAnEarlierOneComputed) {
  const auto prompt = random_prompt(1, 5 * kPageTokens + 10);
  {
    const auto engine = start(64);
    EXPECT_EQ(ask(*engine, greedy(prompt, 5)).tokens, plain_answer(prompt, 5));
  }  // what was not on disk yet is written at the end
  const auto engine = start(64);
  const Answered answered = ask(*engine, greedy(prompt, 30));
  EXPECT_EQ(answered.n_cached, 5 * kPageTokens);
  EXPECT_EQ(answered.tokens, plain_answer(prompt, 30));
  EXPECT_EQ(engine->stats().spill->n_restored, 5);
}

TEST_F(SpillFolderTest, AnIdleEngineSpillsAllItHas) {
  const auto engine = start(64);
  ask(*engine, greedy(random_prompt(1, 20 * kPageTokens), 5));
  for (int i = 0; i < 20'000 && engine->stats().spill->n_pages < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(engine->stats().spill->n_pages, 20) << "of which none had to make room";
}

TEST_F(SpillFolderTest, ManyPromptsInASmallPool) {
  const auto engine = start(8);
  for (int round = 0; round < 3; ++round) {
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      const auto prompt = random_prompt(seed, 3 * kPageTokens + int64_t{10} * seed);
      const Answered answered = ask(*engine, greedy(prompt, 20));
      EXPECT_EQ(answered.tokens, plain_answer(prompt, 20)) << round << " " << seed;
    }
  }
  EXPECT_GT(engine->stats().spill->n_restored, 0);
  EXPECT_EQ(engine->stats().spill->n_damaged, 0);
}

}  // namespace
}  // namespace penstock
