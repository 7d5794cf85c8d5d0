// Experts that do not all fit VRAM: banks in RAM, and a pool of slots on the GPU for those that
// steps use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/device_objects.h"
#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/router/router_gpu.h"
#include "memory/bank_store.h"
#include "memory/expert_cache.h"
#include "memory/pin_store.h"
#include "memory/slot_table.h"
#include "model/gpu/gpu_buffer.h"
#include "model/gpu/gpu_weights.h"

namespace penstock {

// Two ways to the experts of a step. bring(): the host knows what a layer wants, and copies and
// kernels go to one stream, so a slot is written after the last kernel that read it. begin_calls()
// to end_calls(): the step was queued as a whole, its routers find slots in slots_of(), and those
// that miss one ask through a mailbox in page-locked memory and wait while serve() copies on a
// stream of its own. A layer asks when all before it are computed and none behind it has begun:
// every slot but its own experts' may be written then.
class GpuExpertCache {
 public:
  // Allocates the pool. n_slots >= 1; `banks` has all routed experts, as stored.
  static Result<std::unique_ptr<GpuExpertCache>> make(const std::shared_ptr<Driver>& driver,
                                                      PinStore& pins, const ModelSpec& spec,
                                                      const GpuWeights& weights, int64_t n_slots,
                                                      std::unique_ptr<BankStore> banks);

  ConstDeviceBytes pool() const { return pool_.bytes(); }
  int64_t n_slots() const { return table_.n_slots(); }
  const ExpertCounts& counts() const { return counts_; }

  // Gives slots to as many of the layer's groups, each of another expert, as there are: those whose
  // experts are there first. Queues the copies of the others, sets `slot` of all that have one,
  // brings them to the front and returns their number. What is queued on the stream from here on
  // may use them; the next call may take the slots again.
  Result<size_t> bring(const GpuQueue& queue, int layer, std::span<GpuExpertGroup> groups);

  // Whether steps of so many tokens can be queued as a whole: all is page-locked, for a copy of
  // other memory might wait for the kernel that waits for it.
  bool takes_calls(int64_t n_tokens) const;
  DeviceSpan<const int32_t> slots_of(int layer) const;
  GpuExpertCalls calls_of(int layer) const;
  // Before the step is queued, on its stream: slots are as bring() left them.
  Result<void> begin_calls(const GpuQueue& queue);
  // Serves the step's calls until `done`, an event behind it, has happened.
  Result<void> serve_calls(EventId done, int64_t n_tokens);

 private:
  GpuExpertCache(std::shared_ptr<Driver> driver, const ModelSpec& spec, DeviceMemory pool,
                 DeviceMemory state, Stream stream, const GpuWeights& weights, SlotTable table,
                 std::unique_ptr<BankStore> banks)
      : driver_(std::move(driver)),
        n_layers_(spec.n_layers()),
        n_experts_(spec.moe.n_experts),
        top_k_(spec.moe.top_k),
        pool_(std::move(pool)),
        state_(std::move(state)),
        stream_(std::move(stream)),
        weights_(&weights),
        table_(std::move(table)),
        banks_(std::move(banks)),
        slots_(static_cast<size_t>(n_layers_ * n_experts_), kNoSlot) {}

  static constexpr int32_t kNoSlot = -1;

  // The shared memory: mailbox, log [n_layers, kGpuMostLogged], slots [n_layers, n_experts] to be
  // sent.
  GpuExpertMailbox& mailbox() const;
  size_t log_at() const { return sizeof(GpuExpertMailbox); }
  size_t slots_at() const;
  std::vector<int> chosen_by(int layer, int64_t n_tokens) const;
  void note_uses(int end_layer, int64_t n_tokens);
  Result<void> serve(int64_t n_tokens);
  Result<void> send_slots(const GpuQueue& queue);
  void set_slot(size_t slot, ExpertId holds);
  Result<std::vector<SlotTable::Lease>> lease(const GpuQueue& queue, int layer,
                                              std::span<const int> experts);
  Result<void> copy(const GpuQueue& queue, ExpertId id, size_t slot);
  Result<void> copy(const GpuQueue& queue, std::span<const std::byte> from, DeviceBytes to);

  std::shared_ptr<Driver> driver_;
  int n_layers_, n_experts_, top_k_;
  DeviceMemory pool_;
  DeviceMemory state_;  // slots [n_layers, n_experts], then the counter of requests
  Stream stream_;       // of serve()'s copies
  const GpuWeights* weights_;
  SlotTable table_;
  std::unique_ptr<BankStore> banks_;
  ExpertCounts counts_;
  std::vector<int32_t> slots_;          // as the GPU has them, or is to have them
  std::optional<PinnedMemory> shared_;  // with the GPU; where all of it is page-locked,
  DeviceBytes shared_view_ = {};        // as the GPU sees it; else empty
  int n_noted_ = 0;                     // layers of this step whose uses are noted
};

// A step's assignments of tokens to experts, grouped by expert on the host.
struct HostAssignments {
  std::vector<GpuExpertGroup> groups = {};  // ascending by expert
  std::vector<int32_t> row_of = {};         // of each assignment
  std::vector<int32_t> token_of = {};       // of each row
};
HostAssignments group_by_expert(std::span<const int32_t> chosen, int top_k, int n_experts);

}  // namespace penstock
