#include "engine/prefix_spill.h"

#include <array>

#include "kernels/attention/attention.h"

namespace penstock {

std::vector<ChainKey> PrefixSpill::find(std::string_view scope, const PrefixKeys& keys,
                                        int64_t first) const {
  std::vector<ChainKey> found;
  ChainKey chain = root(scope);
  for (int64_t page = 0; (page + 1) * kPageTokens <= keys.size(); ++page) {
    std::array<PositionKey, kPageTokens> positions = {};
    for (int64_t i = 0; i < kPageTokens; ++i) {
      positions[static_cast<size_t>(i)] = keys.at(page * kPageTokens + i);
    }
    chain = next(chain, positions);
    if (page < first) continue;
    if (!has(chain)) break;
    found.push_back(chain);
  }
  return found;
}

void PrefixSpill::restore(uint64_t id, std::vector<ChainKey> found, std::span<const PageId> pages) {
  std::vector<std::span<std::byte>> memory;
  for (const PageId page : pages) memory.push_back(page_memory_(page));
  tier_->restore(id, std::move(found), std::move(memory));
}

}  // namespace penstock
