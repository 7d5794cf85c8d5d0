#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {
namespace {

bool can_grow(const Sequence& sequence, int64_t n_pages) {
  return pages_for(sequence.max_positions) > n_pages;
}

int64_t n_held(const Sequence& sequence) { return static_cast<int64_t>(sequence.pages.size()); }

}  // namespace

int64_t pages_for(int64_t n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

void Scheduler::add(Sequence* sequence) {
  PENSTOCK_CHECK(pages_for(sequence->max_positions) <= pool_.n_pages(), "can never fit");
  PENSTOCK_CHECK(sequence->size() > 0 && sequence->size() <= sequence->max_positions,
                 "longer than it said");
  sequences_.push_back(sequence);
}

void Scheduler::remove(Sequence* sequence) {
  const auto found = std::ranges::find(sequences_, sequence);
  PENSTOCK_CHECK(found != sequences_.end(), "not scheduled");
  if (static_cast<size_t>(found - sequences_.begin()) < n_running_) --n_running_;
  sequences_.erase(found);
  sequence->pages.clear();
}

std::vector<PlannedSlice> Scheduler::plan() {
  std::vector<PlannedSlice> slices;
  plan_decodes(slices);
  plan_prefill(slices);
  PENSTOCK_CHECK(!slices.empty() || sequences_.empty(), "nobody can run");
  return slices;
}

void Scheduler::computed(std::span<const PlannedSlice> slices) {
  for (const PlannedSlice& slice : slices) slice.sequence->n_computed = slice.end;
}

void Scheduler::plan_decodes(std::vector<PlannedSlice>& slices) {
  // Preemption shrinks n_running_ from the young end, behind every slice already planned.
  for (size_t i = 0; i < n_running_; ++i) {
    Sequence& sequence = *sequences_[i];
    if (!sequence.is_decoding()) continue;
    while (i < n_running_ && !cover(sequence, sequence.size())) preempt_youngest();
    if (i < n_running_) slices.push_back({&sequence, sequence.n_computed, sequence.size()});
  }
}

void Scheduler::plan_prefill(std::vector<PlannedSlice>& slices) {
  int64_t budget = options_.prefill_budget;
  for (size_t i = 0; budget > 0 && (i < n_running_ || admit_next()); ++i) {
    Sequence& sequence = *sequences_[i];
    if (sequence.is_decoding()) continue;
    const int64_t n_tokens = std::min(budget, sequence.n_left());
    slices.push_back({&sequence, sequence.n_computed, sequence.n_computed + n_tokens});
    budget -= n_tokens;
  }
}

bool Scheduler::admit_next() {
  if (n_running_ == sequences_.size() || n_running() >= options_.max_running) return false;
  Sequence& next = *sequences_[n_running_];
  const int64_t n_needed = pages_for(next.size());
  int64_t n_spare = 0;
  for (size_t i = 0; i < n_running_; ++i) {
    n_spare += can_grow(*sequences_[i], n_held(*sequences_[i])) ? 1 : 0;
  }
  // Alone, it may have everything: that is what "can ever fit" means.
  if (n_running_ > 0) n_spare += can_grow(next, n_needed) ? 1 : 0;
  if (n_needed + n_spare > pool_.n_free()) return false;
  PENSTOCK_CHECK(cover(next, next.size()), "the pages were counted");
  ++n_running_;
  return true;
}

bool Scheduler::cover(Sequence& sequence, int64_t n_tokens) {
  while (n_held(sequence) < pages_for(n_tokens)) {
    auto page = pool_.take();
    if (!page) return false;
    sequence.pages.push_back(*std::move(page));
  }
  return true;
}

void Scheduler::preempt_youngest() {
  Sequence& youngest = *sequences_[--n_running_];
  youngest.pages.clear();
  youngest.n_computed = 0;
}

}  // namespace penstock
