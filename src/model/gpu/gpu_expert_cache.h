// Experts that do not all fit VRAM: banks in RAM, and a pool of slots on the GPU for those that
// steps use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/device_objects.h"
#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/gpu_queue.h"
#include "memory/bank_store.h"
#include "memory/expert_cache.h"
#include "memory/slot_table.h"
#include "model/gpu/gpu_buffer.h"
#include "model/gpu/gpu_weights.h"

namespace penstock {

// Copies and kernels go to one stream: a slot is written after the last kernel that read it.
class GpuExpertCache {
 public:
  // Allocates the pool. n_slots >= 1; `banks` has all routed experts, as stored.
  static Result<std::unique_ptr<GpuExpertCache>> make(Driver& driver, const ModelSpec& spec,
                                                      const GpuWeights& weights, int64_t n_slots,
                                                      std::unique_ptr<BankStore> banks);

  ConstDeviceBytes pool() const { return pool_.bytes(); }
  int64_t n_slots() const { return table_.n_slots(); }
  const BankStore& banks() const { return *banks_; }
  const ExpertCounts& counts() const { return counts_; }

  // Gives slots to as many of the layer's groups, each of another expert, as there are: those whose
  // experts are there first. Queues the copies of the others, sets `slot` of all that have one,
  // brings them to the front and returns their number. What is queued on the stream from here on
  // may use them; the next call may take the slots again.
  Result<size_t> bring(const GpuQueue& queue, int layer, std::span<GpuExpertGroup> groups);

 private:
  GpuExpertCache(DeviceMemory pool, const GpuWeights& weights, SlotTable table,
                 std::unique_ptr<BankStore> banks)
      : pool_(std::move(pool)),
        weights_(&weights),
        table_(std::move(table)),
        banks_(std::move(banks)) {}
  Result<void> copy(const GpuQueue& queue, ExpertId id, size_t slot);
  Result<void> copy(const GpuQueue& queue, std::span<const std::byte> from, DeviceBytes to);

  DeviceMemory pool_;
  const GpuWeights* weights_;
  SlotTable table_;
  std::unique_ptr<BankStore> banks_;
  ExpertCounts counts_;
};

// A step's assignments of tokens to experts, grouped by expert on the host.
struct HostAssignments {
  std::vector<GpuExpertGroup> groups = {};  // ascending by expert
  std::vector<int32_t> row_of = {};         // of each assignment
  std::vector<int32_t> token_of = {};       // of each row
};
HostAssignments group_by_expert(std::span<const int32_t> chosen, int top_k, int n_experts);

}  // namespace penstock
