#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "kernels/attention/attention.h"

namespace penstock {
namespace {

// These tests are about order and pages: prefill_budget_test.cc is about time, and sequences of one
// token each would share their pages.
const SchedulerOptions kFixedBudget = {.prefill = {.share = 0}};

constexpr int kOneLayer = 1;

Sequence make_sequence(int64_t n_prompt, int64_t n_answer) {
  Sequence sequence;
  sequence.tokens.assign(static_cast<size_t>(n_prompt), 1);
  sequence.n_prompt = n_prompt;
  sequence.max_positions = n_prompt + n_answer - 1;
  sequence.use_prefix_cache = false;
  return sequence;
}

// What a step does to the sequences: computes, and adds a token where the tokens were all computed.
void run(Scheduler& scheduler, const std::vector<PlannedSlice>& slices) {
  scheduler.computed(slices, 0.0);
  for (const PlannedSlice& slice : slices) {
    if (slice.is_last()) slice.sequence->tokens.push_back(1);
  }
}

std::vector<const Sequence*> planned(const std::vector<PlannedSlice>& slices) {
  std::vector<const Sequence*> sequences;
  for (const PlannedSlice& slice : slices) sequences.push_back(slice.sequence);
  return sequences;
}

int64_t n_prefill_tokens(const std::vector<PlannedSlice>& slices) {
  int64_t n = 0;
  for (const PlannedSlice& slice : slices) {
    if (!slice.sequence->is_decoding()) n += slice.end - slice.begin;
  }
  return n;
}

TEST(Scheduler, EveryStepHasAllDecodesAndOneBudgetOfPrefill) {
  Scheduler scheduler({.prefill = {.most = 100, .share = 0}}, kOneLayer, /*n_pages=*/100);
  Sequence talking = make_sequence(10, 50);
  Sequence long_prompt = make_sequence(250, 50);
  Sequence late = make_sequence(30, 50);
  scheduler.add(&talking);
  run(scheduler, scheduler.plan().slices);
  scheduler.add(&long_prompt);
  scheduler.add(&late);

  const std::vector<int64_t> long_chunks = {100, 100, 50};
  for (const int64_t chunk : long_chunks) {
    const auto slices = scheduler.plan().slices;
    ASSERT_GE(slices.size(), 2U);
    EXPECT_EQ(slices[0].sequence, &talking);
    EXPECT_EQ(slices[0].end - slices[0].begin, 1);
    EXPECT_EQ(slices[1].sequence, &long_prompt);
    EXPECT_EQ(slices[1].end - slices[1].begin, chunk);
    EXPECT_EQ(slices.size(), chunk == 50 ? 3U : 2U)
        << "what is left of the budget goes to the next";
    EXPECT_LE(n_prefill_tokens(slices), 100);
    run(scheduler, slices);
  }
  EXPECT_EQ(scheduler.plan().slices.size(), 3U);
}

TEST(Scheduler, NobodyOvertakesTheFirstInTheQueue) {
  Scheduler scheduler(kFixedBudget, kOneLayer, /*n_pages=*/4);
  Sequence first = make_sequence(2 * kPageTokens, kPageTokens);  // 2 pages, and one to come
  Sequence second = make_sequence(3 * kPageTokens, 1);           // 3 pages
  Sequence third = make_sequence(1, 1);                          // would fit
  for (Sequence* sequence : {&first, &second, &third}) scheduler.add(sequence);
  for (int i = 0; i < 10; ++i) {
    const auto slices = scheduler.plan().slices;
    EXPECT_EQ(planned(slices), (std::vector<const Sequence*>{&first}));
    run(scheduler, slices);
  }
  scheduler.remove(&first);
  EXPECT_EQ(planned(scheduler.plan().slices), (std::vector<const Sequence*>{&second, &third}));
}

TEST(Scheduler, AdmissionLeavesAPageForEachThatCanGrow) {
  Scheduler scheduler(kFixedBudget, kOneLayer, /*n_pages=*/4);
  Sequence first = make_sequence(kPageTokens, kPageTokens);
  Sequence second = make_sequence(kPageTokens, kPageTokens);
  Sequence third = make_sequence(kPageTokens, 1);
  for (Sequence* sequence : {&first, &second, &third}) scheduler.add(sequence);
  // 2 pages held and 2 to come: none for the third.
  EXPECT_EQ(planned(scheduler.plan().slices), (std::vector<const Sequence*>{&first, &second}));
}

TEST(Scheduler, TheYoungestGivesItsPagesToTheOldest) {
  Scheduler scheduler(kFixedBudget, kOneLayer, /*n_pages=*/5);
  Sequence old = make_sequence(kPageTokens, 4 * kPageTokens);
  Sequence young = make_sequence(kPageTokens, 2 * kPageTokens);
  scheduler.add(&old);
  scheduler.add(&young);
  int64_t n_preempted = 0;
  int64_t before = 0;
  for (int step = 0; old.size() < old.max_positions; ++step) {
    ASSERT_LT(step, 1000);
    const int64_t old_size = old.size();
    const auto slices = scheduler.plan().slices;
    n_preempted += young.n_computed < before ? 1 : 0;
    run(scheduler, slices);
    EXPECT_EQ(old.size(), old_size + 1) << "the oldest lost a step";
    before = young.n_computed;
    if (young.size() == young.max_positions + 1) break;
  }
  EXPECT_GT(n_preempted, 0);
}

TEST(Scheduler, APreemptedSequenceIsComputedAgainFromItsFirstToken) {
  Scheduler scheduler(kFixedBudget, kOneLayer, /*n_pages=*/5);
  Sequence old = make_sequence(kPageTokens - 1, 4 * kPageTokens);
  Sequence young = make_sequence(kPageTokens - 1, 2 * kPageTokens);
  scheduler.add(&old);
  scheduler.add(&young);
  while (young.n_computed < young.n_prompt + kPageTokens) run(scheduler, scheduler.plan().slices);
  while (young.n_computed > 0) run(scheduler, scheduler.plan().slices);  // both want a third page
  EXPECT_EQ(scheduler.n_waiting(), 1);
  EXPECT_TRUE(young.pages.empty());
  EXPECT_EQ(scheduler.pool().n_free() + static_cast<int64_t>(old.pages.size()), 5);
  scheduler.remove(&old);
  const auto slices = scheduler.plan().slices;
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(slices[0].begin, 0);
  EXPECT_EQ(slices[0].end, young.size()) << "its answer so far is part of what is computed again";
  EXPECT_GT(young.size(), young.n_prompt + kPageTokens);
}

// BC-62
TEST(Scheduler, AnExactFitRunsAlone) {
  for (const int64_t n_prompt : {4 * kPageTokens - 1, 4 * kPageTokens}) {
    Scheduler scheduler(kFixedBudget, kOneLayer, /*n_pages=*/4);
    Sequence sequence = make_sequence(n_prompt, 1);
    scheduler.add(&sequence);
    const auto slices = scheduler.plan().slices;
    ASSERT_EQ(slices.size(), 1U);
    EXPECT_TRUE(slices[0].is_last());
  }
}

TEST(Scheduler, MaxRunningIsTheMostInAStep) {
  Scheduler scheduler({.prefill = {.share = 0}, .max_running = 2}, kOneLayer, /*n_pages=*/100);
  std::deque<Sequence> sequences;  // stay where they are
  for (int i = 0; i < 5; ++i) {
    sequences.push_back(make_sequence(3, 3));
    scheduler.add(&sequences.back());
  }
  EXPECT_EQ(scheduler.plan().slices.size(), 2U);
  EXPECT_EQ(scheduler.n_waiting(), 3);
}

// A scheduler whose steps take no time crosses one layer a step beside answers.
struct ThreeLayers {
  ThreeLayers() {
    scheduler.add(&talking);
    run(scheduler, scheduler.plan().slices);
    run(scheduler, scheduler.plan().slices);  // shows what it takes alone; the one before it, too
    run(scheduler, scheduler.plan().slices);
  }
  // The next plan's slice of `sequence`.
  std::optional<PlannedSlice> step(const Sequence& sequence) {
    const auto slices = scheduler.plan().slices;
    EXPECT_EQ(slices.front().sequence, &talking) << "an answer missed a step";
    run(scheduler, slices);
    const auto found = std::ranges::find(slices, &sequence, &PlannedSlice::sequence);
    return found == slices.end() ? std::nullopt : std::optional(*found);
  }

  Scheduler scheduler{{}, /*n_layers=*/3, /*n_pages=*/8};
  Sequence talking = make_sequence(10, 200);
};

TEST(Scheduler, BesideAnswersAChunkCrossesTheLayersInSeveralSteps) {
  ThreeLayers rig;
  Sequence prompt = make_sequence(10, 5);
  rig.scheduler.add(&prompt);
  for (int layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(prompt.n_computed, 0) << "computed before its last layer";
    const auto slice = rig.step(prompt);
    ASSERT_TRUE(slice);
    EXPECT_EQ(std::pair(slice->begin, slice->end), (std::pair<int64_t, int64_t>{0, 10}));
    EXPECT_EQ(std::pair(slice->first_layer, slice->end_layer), std::pair(layer, layer + 1));
  }
  EXPECT_EQ(prompt.n_computed, 10);
  EXPECT_EQ(prompt.size(), 11) << "its first token was chosen once";
}

TEST(Scheduler, WhoLeavesAChunkLeavesTheOthersInIt) {
  ThreeLayers rig;
  Sequence leaving = make_sequence(5, 5);
  Sequence staying = make_sequence(6, 5);
  rig.scheduler.add(&leaving);
  rig.scheduler.add(&staying);
  ASSERT_TRUE(rig.step(staying));
  rig.scheduler.remove(&leaving);
  for (const int layer : {1, 2}) {
    const auto slice = rig.step(staying);
    ASSERT_TRUE(slice);
    EXPECT_EQ(slice->first_layer, layer);
  }
  EXPECT_EQ(staying.n_computed, 6);
  EXPECT_EQ(leaving.n_computed, 0);
}

TEST(Scheduler, WhoIsPreemptedInAChunkBeginsAtTheFirstLayerAgain) {
  ThreeLayers rig;
  Sequence prompt = make_sequence(5 * kPageTokens, 5);
  rig.scheduler.add(&prompt);
  ASSERT_TRUE(rig.step(prompt));
  // The answer needs the pages that the prompt has, sooner than its chunk is through.
  while (rig.talking.size() < 3 * kPageTokens + 2) rig.talking.tokens.push_back(1);
  rig.talking.n_computed = rig.talking.size() - 1;
  EXPECT_FALSE(rig.step(prompt));
  EXPECT_EQ(rig.scheduler.n_waiting(), 1);
  EXPECT_EQ(prompt.n_computed, 0);
  rig.scheduler.remove(&rig.talking);
  const auto slices = rig.scheduler.plan().slices;
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_TRUE(slices[0].is_whole());
}

// Whose pages the cache has kept is not computed in another way than if it had never left.
TEST(Scheduler, WhoLacksOneTokenDecodesAtOnce) {
  ThreeLayers rig;
  Sequence first = make_sequence(10, 5);
  first.use_prefix_cache = true;
  rig.scheduler.add(&first);
  for (int i = 0; i < 4; ++i) rig.step(first);
  ASSERT_EQ(first.n_computed, 11);
  rig.scheduler.remove(&first);
  Sequence again = make_sequence(10, 5);
  again.use_prefix_cache = true;
  again.tokens = first.tokens;
  rig.scheduler.add(&again);
  const auto slices = rig.scheduler.plan().slices;
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(std::pair(slices[1].begin, slices[1].end), (std::pair<int64_t, int64_t>{11, 12}));
  EXPECT_TRUE(slices[1].is_whole() && slices[1].is_generated());
}

TEST(Scheduler, WithoutAnswersAChunkEndsAtOnce) {
  ThreeLayers rig;
  Sequence prompt = make_sequence(10, 5);
  rig.scheduler.add(&prompt);
  ASSERT_TRUE(rig.step(prompt));
  rig.scheduler.remove(&rig.talking);
  const auto slices = rig.scheduler.plan().slices;
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(std::pair(slices[0].first_layer, slices[0].end_layer), std::pair(1, 3));
  EXPECT_TRUE(slices[0].is_last());
}

// A crowd on a small pool, for many seeds: whatever happens, pages are conserved and owned once,
// the budget holds, those who run are those who came first, the oldest moves in every step, and
// everybody is served in the end. The same where chunks cross a layer a step; only that the oldest
// may then stand still for a while.
class Crowd {
 public:
  Crowd(uint32_t seed, PrefillBudgetOptions prefill, int n_layers)
      : random_(seed),
        is_layered_(n_layers > 1),
        scheduler_({.prefill = prefill, .max_running = 5}, n_layers, kPages) {}

  static constexpr int64_t kBudget = 90;

  void run_to_the_end() {
    int n_arrivals = 60;
    for (int step = 0; n_arrivals > 0 || !here_.empty(); ++step) {
      ASSERT_LT(step, 20'000) << "no end";
      while (n_arrivals > 0 && (here_.empty() || chance(5))) {
        arrive();
        --n_arrivals;
      }
      if (chance(50)) leave(std::uniform_int_distribution<size_t>(0, here_.size() - 1)(random_));
      if (!here_.empty()) step_once();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(scheduler_.pool().n_free(), kPages);
  }

 private:
  static constexpr int64_t kPages = 7;

  struct Member {
    Sequence sequence;
    int64_t n_answer = 0;
  };

  bool chance(int one_in) { return random_() % static_cast<uint32_t>(one_in) == 0; }

  void arrive() {
    const auto n_prompt = std::uniform_int_distribution<int64_t>(1, 300)(random_);
    const auto room = kPages * kPageTokens - n_prompt + 1;
    const auto n_answer =
        std::uniform_int_distribution<int64_t>(1, std::min<int64_t>(room, 150))(random_);
    here_.push_back(std::make_unique<Member>(Member{make_sequence(n_prompt, n_answer), n_answer}));
    scheduler_.add(&here_.back()->sequence);
  }

  void leave(size_t index) {
    scheduler_.remove(&here_[index]->sequence);
    here_.erase(here_.begin() + static_cast<ptrdiff_t>(index));
  }

  void step_once() {
    const Sequence& oldest = here_.front()->sequence;
    const int64_t computed_before = oldest.n_computed;
    const auto slices = scheduler_.plan().slices;
    ASSERT_FALSE(slices.empty());
    EXPECT_LE(n_prefill_tokens(slices), kBudget);
    check_pages(slices);
    run(scheduler_, slices);
    EXPECT_TRUE(is_layered_ || oldest.n_computed > computed_before) << "the oldest stood still";
    for (size_t i = here_.size(); i-- > 0;) {
      const Member& member = *here_[i];
      if (member.sequence.size() == member.sequence.n_prompt + member.n_answer) leave(i);
    }
  }

  void check_pages(const std::vector<PlannedSlice>& slices) {
    std::set<PageId> owned;
    int64_t n_owned = 0;
    bool waiting_began = false;
    for (const auto& member : here_) {
      for (const PageRef& page : member->sequence.pages) owned.insert(page.id());
      n_owned += static_cast<int64_t>(member->sequence.pages.size());
      EXPECT_FALSE(waiting_began && !member->sequence.pages.empty()) << "somebody overtook";
      waiting_began = waiting_began || member->sequence.pages.empty();
    }
    EXPECT_EQ(static_cast<int64_t>(owned.size()), n_owned) << "a page has two owners";
    EXPECT_EQ(scheduler_.pool().n_free() + n_owned, kPages);
    for (const PlannedSlice& slice : slices) {
      EXPECT_GE(static_cast<int64_t>(slice.sequence->pages.size()), pages_for(slice.end));
      EXPECT_EQ(slice.begin, slice.sequence->n_computed);
      EXPECT_LE(slice.end, slice.sequence->max_positions);
    }
  }

  std::mt19937 random_;
  bool is_layered_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Member>> here_;
};

TEST(Scheduler, ACrowdOnASmallPoolIsServedInOrder) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Crowd(seed, {.most = Crowd::kBudget, .share = 0}, kOneLayer).run_to_the_end();
    Crowd(seed, {.most = Crowd::kBudget}, /*n_layers=*/4).run_to_the_end();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
