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
  int64_t n_pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

  // Says whether one of the page's references is a cache's, which gives it up when asked.
  void set_cached(PageId page, bool cached);
  // Pages that a cache holds and nobody else: to be had for the asking.
  int64_t n_idle() const { return n_idle_; }

 private:
  friend class PageRef;
  struct Page {
    uint32_t n_references = 0;
    bool cached = false;
    bool is_idle() const { return cached && n_references == 1; }
  };

  void add_reference(PageId page);
  void drop(PageId page);

  std::vector<Page> pages_;
  std::vector<PageId> free_;
  int64_t n_idle_ = 0;
};

}  // namespace penstock
