#include "memory/page_pool.h"

#include "base/check.h"

namespace penstock {

PageRef& PageRef::operator=(PageRef&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(page_, other.page_);
  return *this;
}

PageRef::~PageRef() {
  if (pool_) pool_->drop(page_);
}

PageRef PageRef::share() const {
  ++pool_->references_[static_cast<size_t>(page_)];
  return {pool_, page_};
}

bool PageRef::is_shared() const { return pool_->references_[static_cast<size_t>(page_)] > 1; }

PagePool::PagePool(int64_t n_pages) : references_(static_cast<size_t>(n_pages), 0) {
  free_.reserve(references_.size());
  // Popped from the back: the lowest page first, so that a short run touches little memory.
  for (size_t page = references_.size(); page > 0; --page)
    free_.push_back(static_cast<PageId>(page - 1));
}

std::optional<PageRef> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return PageRef(this, page);
}

void PagePool::drop(PageId page) {
  uint32_t& count = references_[static_cast<size_t>(page)];
  PENSTOCK_CHECK(count > 0, "a KV page was given back twice");
  if (--count == 0) free_.push_back(page);
}

}  // namespace penstock
