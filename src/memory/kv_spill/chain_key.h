// Names KV pages outside the pool: by a hash over all that a page's numbers follow from, which
// tells nobody what that was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace penstock {

// Of a page: who may share it, all positions before it, and its own. Equal keys mean equal pages.
struct ChainKey {
  uint64_t low = 0;
  uint64_t high = 0;

  auto operator<=>(const ChainKey&) const = default;
};

struct ChainKeyHash {
  size_t operator()(const ChainKey& key) const { return key.low; }  // it is a hash already
};

// What the keys of one store are hashed with: random bytes, so that nobody who does not know them
// can look for two beginnings of the same key. 192 is XXH3's own choice.
using ChainSecret = std::array<std::byte, 192>;

ChainSecret make_chain_secret();

// The key before a scope's first page,
ChainKey root_key(const ChainSecret& secret, std::string_view scope);
// and of the page that holds `positions` behind the pages of `before`.
ChainKey next_key(const ChainSecret& secret, const ChainKey& before,
                  std::span<const uint64_t> positions);

}  // namespace penstock
