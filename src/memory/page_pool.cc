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
  pool_->add_reference(page_);
  return {pool_, page_};
}

bool PageRef::is_shared() const {
  return pool_->pages_[static_cast<size_t>(page_)].n_references > 1;
}

PagePool::PagePool(int64_t n_pages) : pages_(static_cast<size_t>(n_pages)) {
  free_.reserve(pages_.size());
  // Popped from the back: the lowest page first, so that a short run touches little memory.
  for (size_t page = pages_.size(); page > 0; --page) {
    free_.push_back(static_cast<PageId>(page - 1));
  }
}

std::optional<PageRef> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(page)].n_references = 1;
  return PageRef(this, page);
}

void PagePool::set_cached(PageId id, bool cached) {
  Page& page = pages_[static_cast<size_t>(id)];
  PENSTOCK_CHECK(page.n_references > 0, "a free KV page has no holder");
  n_idle_ -= page.is_idle() ? 1 : 0;
  page.cached = cached;
  n_idle_ += page.is_idle() ? 1 : 0;
}

void PagePool::add_reference(PageId id) {
  Page& page = pages_[static_cast<size_t>(id)];
  n_idle_ -= page.is_idle() ? 1 : 0;
  ++page.n_references;
}

void PagePool::drop(PageId id) {
  Page& page = pages_[static_cast<size_t>(id)];
  PENSTOCK_CHECK(page.n_references > 0, "a KV page was given back twice");
  n_idle_ -= page.is_idle() ? 1 : 0;
  --page.n_references;
  n_idle_ += page.is_idle() ? 1 : 0;
  if (page.n_references == 0) {
    page.cached = false;
    free_.push_back(id);
  }
}

}  // namespace penstock
