// KV pages on disk, by key: a folder with slots of one size, an index of what is in them, and the
// least recently used giving way. Whatever ends the process, a later one finds only pages that are
// whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "memory/kv_spill/chain_key.h"
#include "memory/kv_spill/spill_index.h"
#include "os/direct_io.h"
#include "os/memory.h"
#include "os/output.h"
#include "os/private_file.h"

namespace penstock {

struct SpillStoreOptions {
  std::filesystem::path folder = {};
  uint64_t max_bytes = 0;  // of pages on the disk
  size_t page_bytes = 0;
  // All that a page's bytes depend on beside its positions, as text. A store of another identity is
  // emptied.
  std::string identity = {};
  // For tests.
  OpenPrivateFile open_file = open_private_file;
  std::unique_ptr<ReadQueue> reads = {};  // null: the system's
};

// One thread at a time. Files: `index`, which is also what the store's process has locked, and
// `pages`.
//
// A page is written in three steps: its slot's record is cleared, the slot written, the record
// written. A process that is killed between two of them leaves a slot without a record. What the
// disk itself loses or mixes up, a power cut or a flipped bit, does not match its checksum when it
// is read.
class SpillStore {
 public:
  // Errors: kInvalidArgument where not one page fits the budget; kUnavailable where another process
  // has the folder; else what the file system said. What is in the folder and cannot be trusted is
  // thrown away, which note() tells.
  static Result<SpillStore> open(SpillStoreOptions options);

  const ChainSecret& secret() const { return header_.secret; }
  size_t page_bytes() const { return header_.page_bytes; }
  size_t slot_bytes() const { return slot_bytes_; }
  size_t n_slots() const { return n_slots_; }
  size_t n_pages() const { return entries_.size(); }
  bool has(const ChainKey& key) const { return entries_.contains(key); }
  std::vector<ChainKey> keys() const;
  // What was thrown away at open() and why, for the caller's log; or empty.
  const std::string& note() const { return note_; }

  struct Put {
    bool is_stored = false;
    std::optional<ChainKey> evicted = {};  // the page that gave way, whatever came of it
    // Why the page is not stored; nothing where no page could give way to it.
    std::optional<Error> error = {};
  };
  // Stores a page that continues that of `before`, which does not give way to it; a page goes
  // before the one it continues. `slot`: slot_bytes(), aligned to kDirectAlignment, of which the
  // first page_bytes() are the page.
  Put put(const ChainKey& key, const ChainKey& before, std::span<const std::byte> slot);

  struct Wanted {
    ChainKey key;
    std::span<std::byte> out;  // page_bytes()
  };
  struct Got {
    size_t n = 0;  // of the wanted ones, from the first on: read and whole
    // Why the next was not. Its page, if there was one, is forgotten: `lost`.
    std::optional<Error> error = {};
    std::optional<ChainKey> lost = {};
  };
  // Reads pages in batches. What was not got whole has not been written to.
  Got get(std::span<const Wanted> wanted);

  // As if it had been read just now.
  void touch(const ChainKey& key);
  // Empties the store; keys stay good.
  Result<void> clear();
  // Writes down when pages were last used. Without it they are as old as at the last close.
  Result<void> close();

 private:
  struct Entry {
    ChainKey before = {};
    uint64_t last_used = 0;
    uint64_t page_xxh3 = 0;
    uint32_t slot = 0;
    bool is_touched = false;  // since its record was written
  };

  SpillStore(SpillStoreOptions options, FileLock lock);
  Result<void> open_files();
  Result<void> read_index();
  Result<void> read_records(uint64_t index_bytes, uint64_t pages_bytes);
  Result<void> start_afresh();
  Result<void> write_record(uint32_t slot, std::span<const std::byte> record);
  Result<void> write_page(uint32_t slot, const SpillRecord& record,
                          std::span<const std::byte> bytes);
  std::optional<ChainKey> victim(const ChainKey& spared) const;
  void add(const ChainKey& key, const Entry& entry);
  void remove(const ChainKey& key);
  Result<void> get_some(std::span<const Wanted> wanted, Got& got);

  std::filesystem::path folder_;
  OpenPrivateFile open_file_;
  size_t slot_bytes_ = 0;
  size_t n_slots_ = 0;
  FileLock lock_;  // of the index
  SpillHeader header_;
  std::string note_;
  std::unique_ptr<PrivateFile> index_;
  std::unique_ptr<PrivateFile> pages_;
  std::unique_ptr<DirectFile> page_reads_;
  std::unique_ptr<ReadQueue> reads_;
  AnonymousMemory window_;  // what a batch of reads goes to, before it is compared

  std::unordered_map<ChainKey, Entry, ChainKeyHash> entries_;
  // By the page they continue, which may not be here itself: how many.
  std::unordered_map<ChainKey, uint32_t, ChainKeyHash> n_continued_by_;
  std::set<std::pair<uint64_t, ChainKey>> leaves_;  // that no page here continues, by last use
  std::vector<uint32_t> free_slots_;                // the lowest last
  uint64_t clock_ = 0;
};

}  // namespace penstock
