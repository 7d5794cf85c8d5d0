#include "engine/restores.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {

PrefixKeys Restores::Restore::keys(size_t n_pages) const {
  return {std::span(tokens).first(n_pages * kPageTokens), content};
}

void Restores::begin(PrefixSpill& spill, const Sequence& sequence, std::vector<ChainKey> found,
                     std::vector<PageRef> pages) {
  const size_t n_here = pages.size() - found.size();
  std::vector<PageId> ids;
  for (size_t i = n_here; i < pages.size(); ++i) ids.push_back(pages[i].id());
  const auto first = sequence.tokens.begin();
  const auto n_tokens = static_cast<ptrdiff_t>(pages.size()) * kPageTokens;
  restores_.push_back({.id = ++last_id_,
                       .scope = sequence.prefix_scope,
                       .tokens = {first, first + n_tokens},
                       .content = sequence.content,
                       .n_here = n_here,
                       .pages = std::move(pages)});
  spill.restore(last_id_, std::move(found), ids);
}

bool Restores::bring_to(const Sequence& sequence) const {
  const PrefixKeys wanted = sequence.keys(sequence.size() - 1);
  return std::ranges::any_of(restores_, [&](const Restore& restore) {
    return restore.scope == sequence.prefix_scope &&
           common_pages(restore.keys(restore.pages.size()), wanted) >
               static_cast<int64_t>(restore.n_here);
  });
}

void Restores::end(uint64_t id, size_t n_pages, PrefixTree& tree) {
  const auto found = std::ranges::find(restores_, id, &Restore::id);
  PENSTOCK_CHECK(found != restores_.end(), "KV pages that nobody asked for");
  Restore& restore = *found;
  if (n_pages > 0) {
    const size_t n_good = restore.n_here + n_pages;
    tree.insert(restore.scope, restore.keys(n_good), restore.pages);
  }
  restores_.erase(found);
}

}  // namespace penstock
