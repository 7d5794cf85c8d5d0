// KV pages on disk: the spill store with a thread of its own, which writes what the engine gives up
// and reads what it wants back.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "memory/kv_spill/kv_tier.h"
#include "memory/kv_spill/spill_store.h"
#include "os/memory.h"

namespace penstock {

// Reads come before writes: somebody waits for them. What is on its way to the disk is counted as
// there. The first failed write ends writing, with one warning; what is there can still be read.
class KvSpill final : public KvTier {
 public:
  // Errors: SpillStore::open's.
  static Result<std::unique_ptr<KvSpill>> open(SpillStoreOptions options, Log log);
  KvSpill(const KvSpill&) = delete;
  KvSpill& operator=(const KvSpill&) = delete;
  // Writes what it was given, and leaves all reads.
  ~KvSpill() override;

  size_t page_bytes() const override { return page_bytes_; }
  const ChainSecret& secret() const override { return secret_; }
  bool has(const ChainKey& key) const override;
  bool has_room() const override;
  bool takes_pages() const override;
  bool keep(const ChainPage& page) override;
  void restore(uint64_t id, std::vector<ChainKey> keys,
               std::vector<std::span<std::byte>> memory) override;
  std::vector<Restored> take_restored() override;
  bool has_restored() const override;
  void forget_all() override;
  void set_listener(std::function<void()> listener) override;
  KvTierCounts counts() const override;

 private:
  struct Given {
    ChainKey key;
    ChainKey before;
    std::span<std::byte> slot;  // of staging_
  };
  struct Restoring {
    uint64_t id = 0;
    std::vector<ChainKey> keys;
    std::vector<std::span<std::byte>> memory;
  };

  KvSpill(SpillStore store, AnonymousMemory staging, Log log);
  void run();
  // Waits until there is something to do, and does one thing. False: the end.
  bool work();
  void write_one(const Given& page);
  void note_put(const Given& page, const SpillStore::Put& put);
  void read(const Restoring& restoring);
  // Of those that wait to be written, the wanted ones, first.
  void write_given(const std::vector<ChainKey>& wanted);
  std::optional<Given> next_given(const std::vector<ChainKey>* wanted);
  void clear();
  void tell_listener();

  const Log log_;
  SpillStore store_;  // the thread's own, once it runs
  const size_t page_bytes_;
  const size_t slot_bytes_;
  const ChainSecret secret_;
  const AnonymousMemory staging_;  // of pages on their way to the disk

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::unordered_set<ChainKey, ChainKeyHash> there_;  // in the store or given to it
  std::vector<std::span<std::byte>> free_slots_;      // of staging_
  std::deque<Given> given_;
  std::vector<ChainKey> touched_;
  std::deque<Restoring> restoring_;
  std::vector<Restored> restored_;
  KvTierCounts counts_;
  bool is_writing_ = true;  // false: the disk refused once
  bool forgets_ = false;
  bool stopping_ = false;
  bool has_warned_ = false;  // the thread's: of damage

  std::mutex listener_mutex_;
  std::function<void()> listener_;  // under listener_mutex_
  std::thread thread_;
};

}  // namespace penstock
