// Which KV pages are free and how many hold each of the others: ids and counts only.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memory/kv_store.h"

namespace penstock {

class PagePool;

// Holds one reference to one page. Move-only; share() makes another. The last one frees the page.
class PageRef {
 public:
  PageRef(PageRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), page_(other.page_) {}
  PageRef& operator=(PageRef&& other) noexcept;
  ~PageRef();

  PageId id() const { return page_; }
  PageRef share() const;
  bool is_shared() const;

 private:
  friend class PagePool;
  PageRef(PagePool* pool, PageId page) : pool_(pool), page_(page) {}

  PagePool* pool_;
  PageId page_;
};

// One thread: the engine's. Outlives every PageRef.
class PagePool {
 public:
  explicit PagePool(int64_t n_pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // A page with one reference, or nullopt when none is free.
  std::optional<PageRef> take();
  int64_t n_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

 private:
  friend class PageRef;
  void drop(PageId page);

  std::vector<uint32_t> references_;
  std::vector<PageId> free_;
};

}  // namespace penstock
