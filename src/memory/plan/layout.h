// One way of dividing a model over a machine, in bytes: what a plan chooses among.
#pragma once

#include <cstdint>

#include "memory/plan/bank_order.h"
#include "memory/plan/demands.h"
#include "memory/plan/limits.h"
#include "memory/plan/machine.h"

namespace penstock {

// Which banks the slots in VRAM hold experts of.
enum class SlotCover : uint8_t {
  kNothing,  // no slots: what is not whole in VRAM is computed by the CPU
  kPinned,
  kAllCachable,  // those in RAM that are not page-locked too: their misses are the CPU's
};

// A split of the banks, as places of a BankOrder:
//   [0, n_pinned)                       page-locked
//   [n_pinned, n_cachable - n_vram)     in RAM or on disk
//   [n_cachable - n_vram, n_cachable)   whole in VRAM, nowhere else
//   [n_cachable, n)                     in RAM or on disk
struct Split {
  int n_pinned = 0;
  int n_vram = 0;
  SlotCover cover = SlotCover::kNothing;
  bool has_ring = false;  // in VRAM, through which prefill streams what is not there
  bool rows_in_ram = false;
};

// What a split's runs of places come to.
struct SplitSums {
  BankSums pinned = {};
  BankSums middle = {};  // neither page-locked nor in VRAM, and may be in slots
  BankSums in_vram = {};
  BankSums cpu_only = {};
  BankSums covered = {};  // by slots in VRAM

  BankSums rest() const { return middle + cpu_only; }
};
SplitSums sums_of(const BankOrder& order, const Split& split);
// The same for another cover of the same places.
SplitSums with_cover(SplitSums sums, SlotCover cover);

struct MemoryLayout {
  bool has_gpu = false;
  Split split = {};
  SplitSums sums = {};
  bool rest_on_disk = false;  // all banks that are neither page-locked nor in VRAM
  int64_t kv_tokens = 0;
  uint64_t kv_bytes = 0;
  int64_t vram_slots = 0;
  int64_t ram_slots = 0;
  uint64_t ring_bytes = 0;
  uint64_t ram_used = 0;
  uint64_t vram_used = 0;
  uint64_t ram_missing = 0;  // 0: it fits
  uint64_t vram_missing = 0;

  bool fits() const { return ram_missing == 0 && vram_missing == 0; }
  uint64_t missing() const { return ram_missing + vram_missing; }
};

// Of host memory, for direct reads: a ring of requests in flight.
inline constexpr uint64_t kStagingBytes = uint64_t{64} << 20;

// Works out the bytes of splits on one machine.
class LayoutMaker {
 public:
  // gpu: null for none. All arguments outlive this.
  LayoutMaker(const ModelDemands& demands, const Machine& machine, const MachineGpu* gpu,
              const Limits& limits, const BankOrder& order);

  // sums: sums_of the split, which many layouts share.
  MemoryLayout make(const Split& split, const SplitSums& sums) const;

 private:
  void fill_vram(MemoryLayout& layout) const;
  void fill_ram(MemoryLayout& layout) const;
  uint64_t fixed_vram() const;
  uint64_t fixed_ram() const;
  // KV bytes that are set aside before experts get the rest of `room`.
  uint64_t first_kv_bytes(uint64_t room, uint64_t share) const;
  void set_kv(MemoryLayout& layout, uint64_t bytes) const;

  const ModelDemands& demands_;
  const Limits& limits_;
  const BankOrder& order_;
  bool has_gpu_ = false;
  uint64_t ram_budget_ = 0;
  uint64_t vram_budget_ = 0;
  uint64_t sequences_bytes_ = 0;
  uint64_t least_kv_bytes_ = 0;  // a shortfall otherwise
  uint64_t usual_kv_bytes_ = 0;  // before experts, where its share of the room allows
  uint64_t most_kv_bytes_ = 0;   // once every expert has its place
};

// What the model is predicted with, and the least KV cache that is worth serving with.
inline constexpr int64_t kLeastKvTokens = 2048;

}  // namespace penstock
