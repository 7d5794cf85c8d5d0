// The prefix tree's pages on their way to a slower tier and back: what the tier calls by key, the
// engine knows by scope, positions and page id.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prefix_keys.h"
#include "memory/kv_spill/kv_tier.h"
#include "memory/kv_store.h"

namespace penstock {

// One thread: the engine's. The tier outlives it.
class PrefixSpill {
 public:
  using PageMemory = std::function<std::span<std::byte>(PageId)>;
  PrefixSpill(KvTier& tier, PageMemory page_memory)
      : tier_(&tier), page_memory_(std::move(page_memory)) {}

  ChainKey root(std::string_view scope) const { return root_key(tier_->secret(), scope); }
  ChainKey next(const ChainKey& before, std::span<const PositionKey> page) const {
    return next_key(tier_->secret(), before, page);
  }
  bool has(const ChainKey& page) const { return tier_->has(page); }
  void keep(const ChainKey& page, const ChainKey& before, PageId id) {
    tier_->keep({.key = page, .before = before, .bytes = page_memory_(id)});
  }

  // Of the full pages of `keys` from number `first` on, those that the tier has, up to the first
  // that it has not.
  std::vector<ChainKey> find(std::string_view scope, const PrefixKeys& keys, int64_t first) const;
  // Begins to bring them back into `pages`, which are the tier's until it tells `id`.
  void restore(uint64_t id, std::vector<ChainKey> found, std::span<const PageId> pages);

 private:
  KvTier* tier_;
  PageMemory page_memory_;
};

}  // namespace penstock
