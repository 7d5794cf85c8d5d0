// Decides what the next step computes: who runs, who waits, who gives its pages back. No threads,
// no model, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/page_pool.h"

namespace penstock {

struct SchedulerOptions {
  int64_t prefill_budget = 512;  // prompt tokens in one step, all sequences together
  int64_t max_running = 64;      // sequences in one step
};

// A request's tokens, and the pages that hold their keys and values.
struct Sequence {
  // [0, n_prompt)     the prompt
  // [n_prompt, size)  the answer so far
  std::vector<int32_t> tokens = {};
  int64_t n_prompt = 0;
  int64_t max_positions = 0;  // the most it will ever compute; its pages must fit the pool
  int64_t n_computed = 0;     // [0, n_computed) is in the pages
  std::vector<PageRef> pages = {};

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_left() const { return size() - n_computed; }
  bool is_decoding() const { return n_computed > 0 && n_left() == 1; }
};

int64_t pages_for(int64_t n_tokens);

// A part of a step: tokens [begin, end) of `sequence`, whose pages cover them.
struct PlannedSlice {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t end = 0;

  bool is_last() const { return end == sequence->size(); }  // its logits choose the next token
};

// First come, first served. A sequence is admitted when there are pages for all its tokens, and one
// to spare for each running sequence that can still grow. When a running one needs a page and there
// is none, the youngest gives all of its pages back and waits, to be computed again; so the oldest
// always runs on.
// One thread: the engine's.
class Scheduler {
 public:
  Scheduler(SchedulerOptions options, int64_t n_pages) : options_(options), pool_(n_pages) {}

  // The sequence stays the caller's, where it is, until remove().
  void add(Sequence* sequence);
  // Gives its pages back.
  void remove(Sequence* sequence);

  // All running decodes, then at most one budget of prefill. Empty only when there are no
  // sequences.
  std::vector<PlannedSlice> plan();
  // The slices of the last plan are in the pages.
  void computed(std::span<const PlannedSlice> slices);

  int64_t n_running() const { return static_cast<int64_t>(n_running_); }
  int64_t n_waiting() const { return static_cast<int64_t>(sequences_.size() - n_running_); }
  const PagePool& pool() const { return pool_; }

 private:
  void plan_decodes(std::vector<PlannedSlice>& slices);
  void plan_prefill(std::vector<PlannedSlice>& slices);
  bool admit_next();
  // Takes pages until they cover n_tokens; false when there is none left.
  bool cover(Sequence& sequence, int64_t n_tokens);
  void preempt_youngest();

  SchedulerOptions options_;
  PagePool pool_;
  // In order of arrival:
  // [0, n_running_)     hold pages and take part in steps
  // [n_running_, size)  wait, and hold none
  std::vector<Sequence*> sequences_;
  size_t n_running_ = 0;
};

}  // namespace penstock
