// Remembers which KV pages hold which beginnings of sequences, so that a request that begins like
// an earlier one takes its pages instead of computing them.
//
// A tree with one page per node; the path from a root spells the positions from 0 on, and each
// scope has a root of its own. Only leaves may hold fewer than kPageTokens positions. The tree
// holds one reference to each of its pages; a page that somebody else holds too is pinned. Who
// holds a page of the tree holds those on the path to it as well, so whatever is not pinned can be
// evicted, leaves first. With a spill, full pages are given to it when they are evicted, or before.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prefix_keys.h"
#include "engine/prefix_spill.h"
#include "memory/page_pool.h"

namespace penstock {

// The longest beginning that the tree knows.
struct PrefixMatch {
  std::vector<PageRef> pages = {};      // full pages, as they are
  std::optional<PageRef> partial = {};  // its first positions fit too: to be copied before use
  int64_t n_positions = 0;              // in all
  std::optional<StateRef> state = {};   // after n_positions; match_with_state only
};

// One thread: the engine's. The pool and the spill outlive it.
class PrefixTree {
 public:
  explicit PrefixTree(PagePool& pool, PrefixSpill* spill = nullptr) : pool_(&pool), spill_(spill) {}
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  ~PrefixTree();

  PrefixMatch match(std::string_view scope, const PrefixKeys& keys);

  // The longest beginning after which the state is known: for families whose recurrent blocks
  // cannot go on from pages alone.
  PrefixMatch match_with_state(std::string_view scope, const PrefixKeys& keys);

  // Remembers the pages that hold `keys`, in order; none of them is written any more. Where the
  // tree has a page for the same positions already, that one takes the place of the caller's.
  void insert(std::string_view scope, const PrefixKeys& keys, std::vector<PageRef>& pages);

  // Remembers a recurrent state as it is after all of `keys`, whose pages were inserted before and
  // are still there. Of two states of one place the first stays.
  void insert_state(std::string_view scope, const PrefixKeys& keys, StateRef state);
  // Gives up the least recently used states that nobody holds. False: there are none.
  bool evict_state();

  // Gives up the least recently used page that nobody holds. False: there is none.
  bool evict_one();
  // Gives up all of them, and gives none to the spill; how many.
  int64_t evict_all();

  // Gives the spill a page that it has not, while it is still here: one that nobody holds. False:
  // there is none.
  bool spill_one();
  // Whether there is one.
  bool has_unspilled() const { return next_to_spill() != unspilled_.end(); }

  int64_t n_pages() const { return n_pages_; }

 private:
  using Keys = std::vector<PositionKey>;
  struct Node {
    Node* parent = nullptr;
    const Keys* keys = nullptr;  // the parent's children's; null in a root
    std::optional<PageRef> page = {};
    // In order of their keys, so that those that begin most alike are neighbours.
    std::map<Keys, std::unique_ptr<Node>> children = {};
    std::map<int64_t, StateRef> states = {};  // by the number of the page's positions before them
    uint64_t last_used = 0;
    ChainKey chain = {};  // with a spill; of a root and of full pages
    std::optional<std::list<Node*>::iterator> unspilled = {};  // its place there
  };
  struct Closest {
    Node* node = nullptr;
    size_t n_common = 0;
  };
  // Of a node's children, the one with the longest common beginning.
  static Closest closest_child(const Node& node, const Keys& keys);
  // The nodes of the longest beginning, a page each; only the last may be a part of its page.
  std::vector<Closest> walk(std::string_view scope, const PrefixKeys& keys);

  Node& root(std::string_view scope);
  Node& add_child(Node& parent, Keys keys, PageRef page);
  void erase(Node& node);
  void add_state(Node& node, int64_t n_positions, StateRef state);
  void touch(Node& node);
  Node* next_to_evict() const;  // null: none
  void evict(Node& leaf);
  // Before others, or because it goes: what the spill has no room for is not asked for again.
  void spill(Node& node);
  void leave_unspilled(Node& node);
  std::list<Node*>::const_iterator next_to_spill() const;

  PagePool* pool_;
  PrefixSpill* spill_;  // null: none
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  using ByLastUse = std::set<std::pair<uint64_t, Node*>>;
  ByLastUse leaves_;
  ByLastUse with_states_;
  // Full pages that the spill has not been given, each behind the one it continues.
  std::list<Node*> unspilled_;
  uint64_t clock_ = 0;
  int64_t n_pages_ = 0;
};

}  // namespace penstock
