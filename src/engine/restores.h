// Prefixes that are on their way back from the spill: which pages they come to, and who waits for
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "engine/prefix_spill.h"
#include "engine/prefix_tree.h"
#include "engine/sequence.h"

namespace penstock {

// One thread: the engine's. Whoever asked for a prefix may be gone when it comes: it goes to the
// tree all the same.
class Restores {
 public:
  // Begins to bring back `found`, the pages of the sequence's prefix behind the first n_here ones.
  // `pages` are those, then one for each that comes.
  void begin(PrefixSpill& spill, const Sequence& sequence, std::vector<ChainKey> found,
             std::vector<PageRef> pages);
  // Whether one brings pages with which the sequence begins too.
  bool bring_to(const Sequence& sequence) const;
  // Leaves the first n_pages that came to the tree. `id` is one that began here.
  void end(uint64_t id, size_t n_pages, PrefixTree& tree);
  bool empty() const { return restores_.empty(); }

 private:
  struct Restore {
    uint64_t id = 0;
    std::string scope;
    std::vector<int32_t> tokens;  // of all pages
    std::vector<ContentSpan> content;
    size_t n_here = 0;
    // Held, so that nobody else writes to those that come, and the tree keeps those before.
    std::vector<PageRef> pages;

    PrefixKeys keys(size_t n_pages) const;
  };

  std::list<Restore> restores_;
  uint64_t last_id_ = 0;
};

}  // namespace penstock
