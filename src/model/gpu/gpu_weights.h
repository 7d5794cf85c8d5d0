// A model's weights in VRAM, as stored: dense matrices in one run of memory, experts in a pool of
// slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cuda/device_objects.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/matmul/experts_gpu.h"
#include "kernels/matmul/matmul_gpu.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "memory/weights.h"
#include "model/decoder_spec.h"

namespace penstock {

// Several matrices of one input, whose outputs lie side by side in a row of y: one after the other
// in memory and multiplied at once where their formats allow it.
struct GpuLinear {
  struct Part {
    GpuMatrix matrix = {};
    int64_t first_row = 0;  // of y's numbers
  };

  std::vector<Part> parts = {};
  int64_t rows = 0;                   // of all parts
  DeviceSpan<const float> bias = {};  // [rows], or empty

  // y = W x + bias, or y += that.  y [n, rows]
  Result<void> multiply(const GpuQueue& queue, GpuRows<const uint16_t> x, GpuRows<float> y,
                        bool adds) const;
  // y = W x + bias of what the norm leaves; h, for as many rows as x, is used or not.
  Result<void> multiply_normed(const GpuQueue& queue, const GpuNormed& x, GpuRows<uint16_t> h,
                               GpuRows<float> y) const;

 private:
  // Calls multiply(matrix, bias, y) for each part.
  template <class Multiply>
  Result<void> for_each_part(GpuRows<float> y, Multiply multiply) const;
};

struct GpuAttentionWeights {
  DeviceSpan<const float> norm = {};  // before the block
  GpuLinear qkv = {};
  GpuLinear output = {};
  DeviceSpan<const float> q_norm = {}, k_norm = {};  // of heads; empty: none
};

struct GpuFfnWeights {
  GpuLinear gate_up = {};
  GpuLinear down = {};
};

struct GpuMoeWeights {
  GpuMatrix router = {};
  DeviceSpan<const float> router_bias = {};  // or empty
  GpuExperts experts = {};
  DeviceSpan<const int32_t> slots = {};  // [n_experts], of each
  GpuFfnWeights shared = {};             // no parts: none
};

struct GpuLayerWeights {
  GpuAttentionWeights attention = {};
  DeviceSpan<const float> ffn_norm = {};
  GpuFfnWeights dense = {};  // of dense layers
  GpuMoeWeights moe = {};    // of the others
};

// What they take of VRAM, before anything is allocated.
struct GpuWeightBytes {
  size_t dense = 0;
  size_t experts = 0;  // all of them in slots
  size_t slot = 0;     // one
};

enum class GpuExpertPlace : uint8_t {
  kAllInSlots,  // uploaded with the rest
  kCached,      // they come and go (gpu_expert_cache.h)
};

// Move-only. Immutable once uploaded.
class GpuWeights {
 public:
  // An error where the model cannot run on a GPU: a format without kernels, by name.
  static Result<GpuWeightBytes> measure(const Checkpoint& checkpoint, const DecoderParts& parts);
  // Copies what lies in `weights`, where experts are too. All is in VRAM when this returns.
  static Result<GpuWeights> upload(const GpuQueue& queue, const Checkpoint& checkpoint,
                                   const DecoderParts& parts, const WeightStore& weights,
                                   GpuExpertPlace experts, const ProgressFn& progress);

  const GpuLayerWeights& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  const GpuMatrix& head() const { return head_; }
  DeviceSpan<const float> final_norm() const { return final_norm_; }
  size_t slot_bytes() const { return slot_bytes_; }
  // The pool of experts that are cached.
  void set_pool(ConstDeviceBytes pool) {
    for (GpuLayerWeights& layer : layers_) layer.moe.experts.pool = pool;
  }

 private:
  class Placement;
  explicit GpuWeights(DeviceMemory memory) : memory_(std::move(memory)) {}

  DeviceMemory memory_;
  std::optional<DeviceMemory> pool_;  // of experts that are all there
  size_t slot_bytes_ = 0;
  std::vector<GpuLayerWeights> layers_;
  GpuMatrix head_;
  DeviceSpan<const float> final_norm_;
};

}  // namespace penstock
