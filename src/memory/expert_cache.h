// Experts that stay on disk, and the slots in RAM that those in use are read into: how a model runs
// that is larger than RAM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "memory/expert_layout.h"
#include "memory/prefetch_judge.h"
#include "memory/slot_table.h"
#include "os/direct_io.h"
#include "os/memory.h"

namespace penstock {

// What a cache did since it was made.
struct ExpertCounts {
  int64_t n_hits = 0;             // experts that were there when they were asked for
  int64_t n_misses = 0;           // those that were not, though some were on their way
  int64_t n_prefetches = 0;       // experts that were read ahead,
  int64_t n_prefetches_used = 0;  // and of them those that were asked for next
  uint64_t bytes_read = 0;
  double wait_seconds = 0.0;  // of steps, for reads

  ExpertCounts since(const ExpertCounts& earlier) const;
  bool operator==(const ExpertCounts&) const = default;
};

class ExpertCache;

// An expert of a wave that can be computed.
struct LeasedExpert {
  size_t which = 0;  // in the experts asked for
  ExpertMatrices matrices = {};
};

// Some of the experts that a layer wants: their slots are leased, keep what they hold, until the
// wave is gone. Move-only.
class ExpertWave {
 public:
  ExpertWave(ExpertWave&& other) noexcept;
  ExpertWave& operator=(ExpertWave&&) = delete;
  ~ExpertWave();

  // Those that it leased, as positions in what was asked for: as many as there were slots for.
  std::span<const size_t> members() const { return members_; }

  // Those that are there and were not returned before, hits first; waits until there is one. None:
  // all were returned. What is first read of a pack is compared with its checksum: one that differs
  // is an error. After an error the wave has no more.
  Result<std::vector<LeasedExpert>> next();

 private:
  friend class ExpertCache;
  struct Miss {
    size_t which;
    size_t slot;
    size_t batch;  // of reads_
    size_t first_request, n_requests;
  };
  Result<bool> has_landed(const Miss& miss, bool wait);
  explicit ExpertWave(ExpertCache& cache) : cache_(&cache) {}

  ExpertCache* cache_;
  std::vector<size_t> members_;
  std::vector<size_t> leased_slots_;
  std::vector<LeasedExpert> hits_;
  std::vector<Miss> misses_;      // not yet returned
  std::vector<ReadBatch> reads_;  // one for all that began with the wave, others for prefetches
};

// One thread at a time: the engine's.
class ExpertCache {
 public:
  // Of at least one slot. `checkpoint` is read again while the cache lives: its files must stay.
  static Result<std::unique_ptr<ExpertCache>> make(const Checkpoint& checkpoint,
                                                   ExpertLayout layout, int64_t n_slots,
                                                   const ReadQueueOptions& reads = {});
  ~ExpertCache();
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  int64_t n_slots() const { return table_.n_slots(); }
  int64_t n_experts() const { return layout_.n_experts(); }
  size_t slot_bytes() const { return layout_.slot_bytes(); }
  const ExpertCounts& counts() const { return counts_; }
  // What was not done as asked, for the caller's log; or empty.
  const std::string& note() const { return note_; }

  // Leases as many of the layer's `experts`, each named once, as there are slots for, at least one,
  // and begins to read those that are not there. One wave at a time.
  ExpertWave begin(int layer, std::span<const int> experts);

  // Begins to read those of the guesses, each of another expert, that are not there and worth it,
  // behind all that a wave reads; the layer's next wave shows which of them came true. Takes up a
  // quarter of the slots at most, and gives up what was read ahead before and nobody asked for.
  void prefetch(int layer, std::span<const ExpertGuess> guesses);

 private:
  friend class ExpertWave;
  // An expert that is read ahead.
  struct Prefetch {
    size_t slot;
    ReadBatch reads;
    bool is_cancelled = false;
  };

  ExpertCache(ExpertLayout layout, std::vector<DirectFile> files, AnonymousMemory memory,
              std::unique_ptr<ReadQueue> queue, SlotTable table, int top_k);
  std::span<std::byte> bytes(size_t slot) const;
  // The matrices of what a slot holds.
  ExpertMatrices matrices(size_t slot) const;
  // Adds the reads that bring an expert into a slot; how many.
  size_t add_reads(size_t slot, std::vector<ReadRequest>& requests);
  // What a slot was read into, if that expert was not compared before.
  Result<void> verify(size_t slot);
  void give_back(ExpertWave& wave);
  // A slot that was read ahead for becomes part of the wave; false: it was not.
  bool adopt_prefetch(ExpertWave& wave, const SlotTable::Lease& lease);
  // Tells the judge which guesses of the layer's experts came true.
  void judge_guesses(int layer, std::span<const int> experts);
  // Slots of prefetches whose reads have ended are as any other again.
  void settle_prefetches();

  SlotTable table_;
  ExpertLayout layout_;
  std::vector<DirectFile> files_;
  AnonymousMemory memory_;  // [n_slots][slot_bytes]
  std::unique_ptr<ReadQueue> queue_;
  std::vector<Prefetch> prefetches_;  // gone before the queue
  std::vector<bool> is_unused_;       // of each slot: read ahead, and not asked for since
  PrefetchJudge judge_;
  int guessed_layer_ = -1;
  std::vector<ExpertGuess> guesses_;  // of that layer's experts, those that had no slot
  std::set<ExpertId> verified_;       // against a pack's checksums
  ExpertCounts counts_;
  std::string note_;
  bool has_wave_ = false;
};

}  // namespace penstock
