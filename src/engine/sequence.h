// A request's tokens as the scheduler sees them: what is to be computed, what has been, and the
// pages that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/prefix_keys.h"
#include "memory/page_pool.h"

namespace penstock {

struct Sequence {
  // [0, n_prompt)     the prompt
  // [n_prompt, size)  the answer so far
  std::vector<int32_t> tokens = {};
  std::vector<ContentSpan> content = {};  // what of the prompt is no text
  int64_t n_prompt = 0;
  int64_t max_positions = 0;  // the most it will ever compute; its pages must fit the pool

  // Who may share its pages: sequences of the same scope that begin with the same keys.
  std::string prefix_scope = {};
  bool use_prefix_cache = true;

  int64_t n_computed = 0;  // [0, n_computed) is in the pages
  std::vector<PageRef> pages = {};
  std::optional<StateRef> state = {};  // after n_computed; of recurrent families
  // Where others are likely to go on from, in order: the ends of system prompt and turns.
  std::vector<int64_t> snapshot_at = {};
  int64_t n_prompt_cached = 0;  // of the prompt, found in the cache when it was first admitted
  bool was_admitted = false;
  bool asked_spill = false;  // for its prefix, since it last began to wait

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_left() const { return size() - n_computed; }
  bool is_decoding() const { return n_computed > 0 && n_left() == 1; }
  // Of its first n positions.
  PrefixKeys keys(int64_t n) const {
    return {std::span(tokens).first(static_cast<size_t>(n)), content};
  }
};

}  // namespace penstock
