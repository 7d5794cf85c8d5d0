#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {
namespace {

bool can_grow(const Sequence& sequence, int64_t n_pages) {
  return pages_for(sequence.max_positions) > n_pages;
}

// Where a slice that begins at n_computed must end, so that a snapshot can be taken there.
int64_t next_boundary(const Sequence& sequence) {
  const auto next = std::ranges::upper_bound(sequence.snapshot_at, sequence.n_computed);
  return next == sequence.snapshot_at.end() ? sequence.size() : std::min(*next, sequence.size());
}

// The page that a part is copied from may itself have to go. A state is good for its place only.
PrefixMatch without_partial(PrefixMatch match) {
  if (!match.partial) return match;
  if (match.state) return {};
  match.partial.reset();
  match.n_positions = static_cast<int64_t>(match.pages.size()) * kPageTokens;
  return match;
}

int64_t n_held(const Sequence& sequence) { return static_cast<int64_t>(sequence.pages.size()); }

bool may_share(const Sequence& a, const Sequence& b) {
  return a.use_prefix_cache && b.use_prefix_cache && a.prefix_scope == b.prefix_scope;
}

}  // namespace

void Scheduler::add(Sequence* sequence) {
  PENSTOCK_CHECK(pages_for(sequence->max_positions) <= pool_.n_all(), "can never fit");
  PENSTOCK_CHECK(sequence->size() > 0 && sequence->size() <= sequence->max_positions,
                 "longer than it said");
  sequences_.push_back(sequence);
}

void Scheduler::remove(Sequence* sequence) {
  const auto found = std::ranges::find(sequences_, sequence);
  PENSTOCK_CHECK(found != sequences_.end(), "not scheduled");
  if (static_cast<size_t>(found - sequences_.begin()) < n_running_) --n_running_;
  sequences_.erase(found);
  leave_chunk(*sequence);
  release(*sequence);
}

StepPlan Scheduler::plan() {
  StepPlan plan;
  plan_decodes(plan);
  plan_prefill(plan);
  PENSTOCK_CHECK(!plan.slices.empty() || sequences_.empty() || !restores_.empty(),
                 "nobody can run");
  return plan;
}

std::vector<StateCopy> Scheduler::computed(std::span<const PlannedSlice> slices, double seconds) {
  std::vector<StateCopy> snapshots;
  StepWork work;
  for (const PlannedSlice& slice : slices) {
    Sequence& sequence = *slice.sequence;
    const int64_t n_tokens = slice.end - slice.begin;
    const bool is_of_chunk = !sequence.is_decoding();
    // To the budget, which learns what steps take, one more token of any sequence is a decode; who
    // counts tokens wants to know whether it was the answer's.
    (is_of_chunk ? work.n_prefill : work.n_decodes) += n_tokens;
    if (is_of_chunk) {
      work.n_layers = slice.end_layer - slice.first_layer;
      work.ends_chunk = slice.is_through();
    }
    if (!slice.is_through()) continue;
    const bool of_answer = !is_of_chunk && slice.begin >= sequence.n_prompt;
    (of_answer ? counts_.n_decode_tokens : counts_.n_prefill_tokens) += n_tokens;
    sequence.n_computed = slice.end;
    const int64_t n_in_full_pages = slice.end / kPageTokens * kPageTokens;
    if (n_in_full_pages > slice.begin) remember(sequence, n_in_full_pages);
    if (const auto snapshot = take_snapshot(sequence)) snapshots.push_back(*snapshot);
  }
  if (work.ends_chunk) chunk_.clear();
  for (PlannedSlice& slice : chunk_) slice.first_layer += work.n_layers;
  budget_.record(work, seconds);
  return snapshots;
}

void Scheduler::failed(std::span<const PlannedSlice> slices) {
  for (const PlannedSlice& slice : slices) slice.sequence->state.reset();
}

void Scheduler::plan_decodes(StepPlan& plan) {
  // Preemption shrinks n_running_ from the young end, behind every slice already planned.
  for (size_t i = 0; i < n_running_; ++i) {
    Sequence& sequence = *sequences_[i];
    if (!sequence.is_decoding()) continue;
    while (i < n_running_ && !cover(sequence, sequence.size())) preempt_youngest();
    if (i < n_running_) plan_decode(sequence, plan);
  }
}

void Scheduler::plan_decode(Sequence& sequence, StepPlan& plan) const {
  plan.slices.push_back({&sequence, sequence.n_computed, sequence.size(), 0, n_layers_, n_layers_});
}

void Scheduler::plan_prefill(StepPlan& plan) {
  const auto n_decodes = static_cast<int64_t>(plan.slices.size());
  if (!budget_.is_due(n_decodes)) return;
  if (chunk_.empty()) begin_chunk(budget_.chunk_tokens(n_decodes), plan);
  if (chunk_.empty()) return;
  const int first_layer = chunk_.front().first_layer;
  const int n_layers = budget_.layers(n_decodes, n_chunk_tokens(), n_layers_ - first_layer);
  for (PlannedSlice& slice : chunk_) {
    slice.end_layer = first_layer + n_layers;
    plan.slices.push_back(slice);
  }
}

void Scheduler::begin_chunk(int64_t n_tokens, StepPlan& plan) {
  for (size_t i = 0; n_tokens > 0; ++i) {
    const bool is_new = i == n_running_;
    if (is_new && !admit_next(plan)) break;
    Sequence& sequence = *sequences_[i];
    if (sequence.is_decoding()) {
      if (is_new) plan_decode(sequence, plan);
      continue;
    }
    const int64_t most = is_recurrent() ? next_boundary(sequence) : sequence.size();
    const int64_t end = std::min(sequence.n_computed + n_tokens, most);
    chunk_.push_back({&sequence, sequence.n_computed, end, 0, 0, n_layers_});
    n_tokens -= end - sequence.n_computed;
  }
}

int64_t Scheduler::n_chunk_tokens() const {
  int64_t n = 0;
  for (const PlannedSlice& slice : chunk_) n += slice.end - slice.begin;
  return n;
}

void Scheduler::leave_chunk(const Sequence& sequence) {
  std::erase_if(chunk_, [&](const PlannedSlice& slice) { return slice.sequence == &sequence; });
}

bool Scheduler::admit_next(StepPlan& plan) {
  if (n_running() >= options_.max_running) return false;
  const auto first = sequences_.begin() + static_cast<ptrdiff_t>(n_running_);
  const auto next = std::find_if(first, sequences_.end(),
                                 [&](Sequence* waiting) { return !waits_for_pages(*waiting); });
  if (next == sequences_.end() || !admit(**next, plan)) return false;
  std::rotate(first, next, next + 1);
  ++n_running_;
  return true;
}

bool Scheduler::waits_for_pages(Sequence& sequence) {
  if (spill_ == nullptr || !sequence.use_prefix_cache) return false;
  return restores_.bring_to(sequence) || (!sequence.asked_spill && begin_restore(sequence));
}

bool Scheduler::begin_restore(Sequence& sequence) {
  PrefixMatch match = without_partial(find_match(sequence));
  if (is_being_computed(sequence, match.n_positions) || !fits(sequence, match)) return false;
  sequence.asked_spill = true;
  std::vector<PageRef> pages = std::move(match.pages);
  std::vector<ChainKey> found =
      spill_->find(sequence.prefix_scope, sequence.keys(sequence.size() - 1),
                   static_cast<int64_t>(pages.size()));
  if (found.empty()) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    auto page = take_page();
    PENSTOCK_CHECK(page, "the pages were counted");
    pages.push_back(*std::move(page));
  }
  restores_.begin(*spill_, sequence, std::move(found), std::move(pages));
  return true;
}

bool Scheduler::admit(Sequence& next, StepPlan& plan) {
  PrefixMatch match = find_match(next);
  if (is_recurrent()) {
    auto state = take_state();
    if (!state) {
      match = {};  // it may hold the last one
      state = take_state();
    }
    if (!state) return false;
    next.state = std::move(state);
  } else if (next.use_prefix_cache && is_being_computed(next, match.n_positions)) {
    return false;
  }
  if (!fits(next, match)) match = without_partial(std::move(match));
  if (!fits(next, match)) {
    next.state.reset();
    return false;
  }
  take_match(next, std::move(match), plan);
  return true;
}

PrefixMatch Scheduler::find_match(const Sequence& sequence) {
  if (!sequence.use_prefix_cache) return {};
  // The last token is always computed: its logits choose what comes next.
  const PrefixKeys wanted = sequence.keys(sequence.size() - 1);
  return is_recurrent() ? tree_.match_with_state(sequence.prefix_scope, wanted)
                        : tree_.match(sequence.prefix_scope, wanted);
}

bool Scheduler::fits(const Sequence& next, const PrefixMatch& match) const {
  const int64_t n_needed = pages_for(next.size());
  int64_t n_spare = n_spare_pages();
  // Alone, it may have everything: that is what "can ever fit" means.
  if (n_running_ > 0) n_spare += can_grow(next, n_needed) ? 1 : 0;
  return n_needed - static_cast<int64_t>(match.pages.size()) + n_spare <=
         pool_.n_free() + pool_.n_idle();
}

bool Scheduler::is_being_computed(const Sequence& next, int64_t n_matched) const {
  const auto computes_for_next = [&](const Sequence* other) {
    if (other->n_left() <= 1 || !may_share(*other, next)) return false;
    const PrefixKeys wanted = next.keys(next.size() - 1);
    const int64_t n_common = common_pages(other->keys(other->size()), wanted) * kPageTokens;
    return n_common > std::max(n_matched, other->n_computed);
  };
  return std::any_of(sequences_.begin(), sequences_.begin() + static_cast<ptrdiff_t>(n_running_),
                     computes_for_next);
}

int64_t Scheduler::n_spare_pages() const {
  int64_t n = 0;
  for (size_t i = 0; i < n_running_; ++i) {
    n += can_grow(*sequences_[i], n_held(*sequences_[i])) ? 1 : 0;
  }
  return n;
}

void Scheduler::take_match(Sequence& sequence, PrefixMatch match, StepPlan& plan) {
  const size_t n_full = match.pages.size();
  sequence.pages = std::move(match.pages);
  sequence.n_computed = match.n_positions;
  PENSTOCK_CHECK(cover(sequence, sequence.size()), "the pages were counted");
  if (match.partial) {
    const PageId copy = sequence.pages[n_full].id();
    plan.copies.push_back({*std::move(match.partial), copy});
  }
  if (sequence.state) plan.states.push_back({std::move(match.state), sequence.state->id()});
  if (sequence.was_admitted) return;
  sequence.was_admitted = true;
  sequence.n_prompt_cached = sequence.n_computed;
  counts_.n_prompt_tokens += sequence.n_prompt;
  counts_.n_prefix_hit_tokens += sequence.n_prompt_cached;
}

bool Scheduler::cover(Sequence& sequence, int64_t n_tokens) {
  while (n_held(sequence) < pages_for(n_tokens)) {
    auto page = take_page();
    if (!page) return false;
    sequence.pages.push_back(*std::move(page));
  }
  return true;
}

std::optional<PageRef> Scheduler::take_page() {
  auto page = pool_.take();
  if (!page && tree_.evict_one()) page = pool_.take();
  return page;
}

std::optional<StateRef> Scheduler::take_state() {
  auto state = states_.take();
  if (!state && tree_.evict_state()) state = states_.take();
  return state;
}

void Scheduler::remember(Sequence& sequence, int64_t n_tokens) {
  if (!sequence.use_prefix_cache || n_tokens == 0) return;
  tree_.insert(sequence.prefix_scope, sequence.keys(n_tokens), sequence.pages);
}

std::optional<StateCopy> Scheduler::take_snapshot(Sequence& sequence) {
  if (!sequence.state || !sequence.use_prefix_cache) return std::nullopt;
  if (!std::ranges::binary_search(sequence.snapshot_at, sequence.n_computed)) return std::nullopt;
  auto snapshot = take_state();
  if (!snapshot) return std::nullopt;  // every state is at work: others will compute it again
  const StateCopy copy{.from = sequence.state->id(), .to = snapshot->id()};
  remember(sequence, sequence.n_computed);
  tree_.insert_state(sequence.prefix_scope, sequence.keys(sequence.n_computed),
                     *std::move(snapshot));
  return copy;
}

void Scheduler::release(Sequence& sequence) {
  remember(sequence, sequence.n_computed);
  if (sequence.state && sequence.use_prefix_cache && sequence.n_computed > 0) {
    tree_.insert_state(sequence.prefix_scope, sequence.keys(sequence.n_computed),
                       *std::exchange(sequence.state, std::nullopt));
  }
  sequence.state.reset();
  sequence.pages.clear();
}

void Scheduler::preempt_youngest() {
  Sequence& youngest = *sequences_[--n_running_];
  leave_chunk(youngest);
  release(youngest);
  youngest.n_computed = 0;
  youngest.asked_spill = false;
  ++counts_.n_preempted;
}

}  // namespace penstock
