// Decides what the next step computes: who runs, who waits, who gives its pages back. No threads,
// no model, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/prefill_budget.h"
#include "engine/prefix_spill.h"
#include "engine/prefix_tree.h"
#include "engine/restores.h"
#include "engine/sequence.h"
#include "memory/page_pool.h"

namespace penstock {

struct SchedulerOptions {
  PrefillBudgetOptions prefill = {};
  int64_t max_running = 64;  // sequences in one step
};

// A part of a step: tokens [begin, end) of `sequence`, whose pages cover them, through layers
// [first_layer, end_layer) of a model of n_layers.
struct PlannedSlice {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int first_layer = 0;
  int end_layer = 0;
  int n_layers = 0;

  bool is_whole() const { return first_layer == 0 && is_through(); }
  bool is_through() const { return end_layer == n_layers; }
  // Its logits choose the next token.
  bool is_last() const { return is_through() && end == sequence->size(); }
  // A token that was sampled, and not one of many computed again after a preemption. Until the step
  // is done.
  bool is_generated() const { return begin >= sequence->n_prompt && sequence->is_decoding(); }
};

// A page to be copied before the step runs: its first positions are what `to` begins with.
struct PlannedCopy {
  PageRef from;
  PageId to;
};

// A sequence's recurrent state before its first step: a copy of another, or that of no tokens.
struct PlannedState {
  std::optional<StateRef> from;
  StateId to;
};

struct StateCopy {
  StateId from;
  StateId to;
};

struct StepPlan {
  std::vector<PlannedCopy> copies = {};
  std::vector<PlannedState> states = {};
  std::vector<PlannedSlice> slices = {};  // all decodes, then the chunk's, through the same layers
};

struct SchedulerCounts {
  int64_t n_prompt_tokens = 0;      // of sequences that were admitted, each once
  int64_t n_prefix_hit_tokens = 0;  // of these, found in the cache
  int64_t n_prefill_tokens = 0;     // computed, those of preempted sequences again
  int64_t n_decode_tokens = 0;
  int64_t n_preempted = 0;
};

// A chunk is what of waiting prompts goes through the model together: beside running answers in
// several steps, a few layers in each. A large chunk reads a layer's weights and the prompt's
// earlier keys once for many tokens, and no step is longer than some of its layers take.
//
// First come, first served. A sequence is admitted when there are pages for all its tokens, and one
// to spare for each running sequence that can still grow; what the cache holds and nobody uses
// counts as free. When a running one needs a page and there is none, the youngest gives all of its
// pages back and waits, to be computed again; so the oldest always runs on. A sequence that begins
// like one whose prompt is being computed waits for those pages instead of computing them too. One
// whose beginning the spill has waits until it is back, and lets those behind it pass.
// Of recurrent families each running sequence also holds a state; at its snapshot_at, and when it
// ends, the cache keeps what the state was, and only from there can others go on.
// One thread: the engine's.
class Scheduler {
 public:
  // n_states: 0 for families without recurrent blocks. spill: null, or outlives the scheduler; of
  // pages that mean something without a state.
  Scheduler(SchedulerOptions options, int n_layers, int64_t n_pages, int64_t n_states = 0,
            PrefixSpill* spill = nullptr)
      : options_(options),
        n_layers_(n_layers),
        pool_(n_pages),
        states_(n_states),
        spill_(spill),
        tree_(pool_, spill),
        budget_(options.prefill, n_layers) {}

  // The sequence stays the caller's, where it is, until remove().
  void add(Sequence* sequence);
  // Leaves what it computed to the cache, and gives its pages back.
  void remove(Sequence* sequence);

  // All running decodes, then at most one chunk of prefill. Without slices only when there are no
  // sequences, or all wait for pages from the spill.
  StepPlan plan();
  // The slices of the last plan went through their layers; how long that took. Returns the states
  // to be copied before the next step: the cache's snapshots.
  std::vector<StateCopy> computed(std::span<const PlannedSlice> slices, double seconds);
  // The slices of the last plan were not computed: what their states are is not known.
  static void failed(std::span<const PlannedSlice> slices);

  // Gives up every page that only the cache holds; how many.
  int64_t drop_cache() { return tree_.evict_all(); }

  // The spill brought the first n_pages of what it was asked for with that id.
  void restored(uint64_t id, size_t n_pages) { restores_.end(id, n_pages, tree_); }
  // Gives the spill a page that only the cache holds. False: it has them all.
  bool spill_one() { return tree_.spill_one(); }
  bool has_unspilled() const { return tree_.has_unspilled(); }

  int64_t n_running() const { return static_cast<int64_t>(n_running_); }
  int64_t n_waiting() const { return static_cast<int64_t>(sequences_.size() - n_running_); }
  const PagePool& pool() const { return pool_; }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  void plan_decodes(StepPlan& plan);
  void plan_decode(Sequence& sequence, StepPlan& plan) const;
  void plan_prefill(StepPlan& plan);
  // Takes up to n_tokens of the prompts, in order, admitting whom it has tokens left for. Who turns
  // out to lack one token only, for the cache has the others, decodes with the rest.
  void begin_chunk(int64_t n_tokens, StepPlan& plan);
  int64_t n_chunk_tokens() const;
  // What it had crossed is lost.
  void leave_chunk(const Sequence& sequence);
  bool admit_next(StepPlan& plan);
  bool admit(Sequence& next, StepPlan& plan);
  // Whether a part of its beginning comes from the spill, which is asked for it once.
  bool waits_for_pages(Sequence& sequence);
  bool begin_restore(Sequence& sequence);
  PrefixMatch find_match(const Sequence& sequence);
  // Whether there are pages for `next` beside what `match` has, and to spare.
  bool fits(const Sequence& next, const PrefixMatch& match) const;
  // Whether a running sequence is computing pages that `next` could share, beyond the first
  // n_matched positions.
  bool is_being_computed(const Sequence& next, int64_t n_matched) const;
  int64_t n_spare_pages() const;
  void take_match(Sequence& sequence, PrefixMatch match, StepPlan& plan);
  // Takes pages, evicting where none is free, until they cover n_tokens; false when there is none.
  bool cover(Sequence& sequence, int64_t n_tokens);
  std::optional<PageRef> take_page();
  bool is_recurrent() const { return states_.n_all() > 0; }
  std::optional<StateRef> take_state();
  // Leaves the first n_tokens to the cache.
  void remember(Sequence& sequence, int64_t n_tokens);
  std::optional<StateCopy> take_snapshot(Sequence& sequence);
  // Leaves all that is computed to the cache, and gives up pages and state.
  void release(Sequence& sequence);
  void preempt_youngest();

  SchedulerOptions options_;
  int n_layers_;
  PagePool pool_;
  StatePool states_;
  PrefixSpill* spill_;  // null: none
  PrefixTree tree_;
  Restores restores_;
  PrefillBudget budget_;
  SchedulerCounts counts_;
  // In order of arrival:
  // [0, n_running_)     hold pages and take part in steps
  // [n_running_, size)  wait, and hold none
  std::vector<Sequence*> sequences_;
  size_t n_running_ = 0;
  std::vector<PlannedSlice> chunk_;  // its slices, with the layers to come
};

}  // namespace penstock
