// Where KV pages go that the pool has no room for, and come back from: what the engine asks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "memory/kv_spill/chain_key.h"

namespace penstock {

struct KvTierCounts {
  int64_t n_pages = 0;  // that it has now
  uint64_t bytes = 0;   // of these
  // Since the start:
  int64_t n_spilled = 0;
  int64_t n_restored = 0;
  int64_t n_dropped = 0;  // not taken: it was busy, full or had failed
  int64_t n_damaged = 0;  // asked for, but not what had been given
  uint64_t bytes_written = 0;
  uint64_t bytes_read = 0;
  double read_seconds = 0.0;
};

// A page in the pool's memory, and its place in a chain.
struct ChainPage {
  ChainKey key;
  ChainKey before;  // the page that it continues, or its scope's root
  std::span<const std::byte> bytes;
};

// One thread: the engine's, which it never holds up; but counts() is thread-safe.
class KvTier {
 public:
  virtual ~KvTier() = default;

  virtual size_t page_bytes() const = 0;
  virtual const ChainSecret& secret() const = 0;  // that keys are made with

  // Whether it has the page, or has been given it; one that it has may turn out to be damaged.
  virtual bool has(const ChainKey& key) const = 0;
  // Whether it would take another page now. When that changes, its listener is told.
  virtual bool has_room() const = 0;
  // Whether there is room sooner or later.
  virtual bool takes_pages() const = 0;
  // Copies the page; a page that it has is only used again. False: dropped, for there is no room.
  virtual bool keep(const ChainPage& page) = 0;

  // Begins to bring back pages that follow one another. The memory is the tier's until
  // take_restored() has told this id.
  virtual void restore(uint64_t id, std::vector<ChainKey> keys,
                       std::vector<std::span<std::byte>> memory) = 0;
  struct Restored {
    uint64_t id = 0;
    size_t n_pages = 0;  // the first so many are what was kept; the others' memory was not written
  };
  // What has come back since the last call. Before that, the listener is told.
  virtual std::vector<Restored> take_restored() = 0;
  virtual bool has_restored() const = 0;

  virtual void forget_all() = 0;

  // Called in the tier's own thread, until it is replaced; null: nobody.
  virtual void set_listener(std::function<void()> listener) = 0;
  virtual KvTierCounts counts() const = 0;
};

}  // namespace penstock
