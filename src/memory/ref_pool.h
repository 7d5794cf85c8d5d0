// Which of a fixed number of things are free and how many hold each of the others: ids and counts
// only. What the ids stand for, KV pages or recurrent states, is somebody else's business.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace penstock {

template <class Id>
class RefPool;

// Holds one reference to one of a pool's things. Move-only; share() makes another. The last one
// frees it.
template <class Id>
class Ref {
 public:
  Ref(Ref&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Ref() {
    if (pool_ != nullptr) pool_->drop(id_);
  }

  Id id() const { return id_; }
  Ref share() const {
    pool_->add_reference(id_);
    return {pool_, id_};
  }
  bool is_shared() const { return pool_->item(id_).n_references > 1; }

 private:
  friend class RefPool<Id>;
  Ref(RefPool<Id>* pool, Id id) : pool_(pool), id_(id) {}

  RefPool<Id>* pool_;
  Id id_;
};

// One thread: the engine's. Outlives every Ref.
template <class Id>
class RefPool {
 public:
  explicit RefPool(int64_t n) : items_(static_cast<size_t>(n)) {
    free_.reserve(items_.size());
    // Popped from the back: the lowest id first, so that a short run touches little memory.
    for (size_t i = items_.size(); i > 0; --i) free_.push_back(static_cast<Id>(i - 1));
  }
  RefPool(const RefPool&) = delete;
  RefPool& operator=(const RefPool&) = delete;

  // One with one reference, or nullopt when none is free.
  std::optional<Ref<Id>> take() {
    if (free_.empty()) return std::nullopt;
    const Id id = free_.back();
    free_.pop_back();
    item(id).n_references = 1;
    return Ref<Id>(this, id);
  }

  int64_t n_all() const { return static_cast<int64_t>(items_.size()); }
  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

  // Says whether one of the references is a cache's, which gives it up when asked.
  void set_cached(Id id, bool cached) {
    PENSTOCK_CHECK(item(id).n_references > 0, "what nobody holds is in no cache");
    n_idle_ -= item(id).is_idle() ? 1 : 0;
    item(id).cached = cached;
    n_idle_ += item(id).is_idle() ? 1 : 0;
  }
  // Those that a cache holds and nobody else: to be had for the asking.
  int64_t n_idle() const { return n_idle_; }

 private:
  friend class Ref<Id>;
  struct Item {
    uint32_t n_references = 0;
    bool cached = false;
    bool is_idle() const { return cached && n_references == 1; }
  };

  Item& item(Id id) { return items_[static_cast<size_t>(id)]; }

  void add_reference(Id id) {
    n_idle_ -= item(id).is_idle() ? 1 : 0;
    ++item(id).n_references;
  }
  void drop(Id id) {
    PENSTOCK_CHECK(item(id).n_references > 0, "given back twice");
    n_idle_ -= item(id).is_idle() ? 1 : 0;
    --item(id).n_references;
    n_idle_ += item(id).is_idle() ? 1 : 0;
    if (item(id).n_references > 0) return;
    item(id).cached = false;
    free_.push_back(id);
  }

  std::vector<Item> items_;
  std::vector<Id> free_;
  int64_t n_idle_ = 0;
};

}  // namespace penstock
