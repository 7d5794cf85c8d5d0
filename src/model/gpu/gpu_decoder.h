// The decoder-only transformer on a GPU: all weights and KV pages in VRAM, the class `gpu`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cpu/pool.h"
#include "cuda/device_objects.h"
#include "kernels/attention/attention_gpu.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/router/router_gpu.h"
#include "memory/pin_store.h"
#include "memory/weights.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/gpu/gpu_buffer.h"
#include "model/gpu/gpu_expert_cache.h"
#include "model/gpu/gpu_weights.h"
#include "model/language_model.h"
#include "model/step_tokens.h"

namespace penstock {

// Bytes of one KV page in VRAM: bf16, keys and values of all layers.
size_t gpu_page_bytes(const ModelSpec& spec);

class GpuDecoder final : public LanguageModel {
 public:
  // What a GPU model is made of.
  struct Parts {
    std::shared_ptr<Driver> driver;  // which has the kernels
    std::unique_ptr<PinStore> pins;
    std::unique_ptr<BankStore> banks;  // of experts that are cached; else null
    Stream stream;
    GpuWeights weights;
    WeightStore host;  // whose embedding rows are read there
    std::unique_ptr<Pool> pool;
    bool use_graphs = true;  // for decode steps: the same bits, less waiting for launches
  };

  static Result<std::unique_ptr<GpuDecoder>> make(const ModelSpec& spec, Parts parts);

  // Before the first step, in this order: memory for steps of so many tokens, and the KV cache.
  // What larger steps need is taken when they come.
  Result<void> reserve_step(int64_t n_tokens);
  Result<void> allocate_kv(int64_t n_pages);
  // Where experts are cached, last: their slots.
  Result<void> allocate_slots(int64_t n_slots);

  const ModelSpec& spec() const override { return spec_; }
  int64_t n_pages() const override { return n_pages_; }
  Result<void> step(std::span<const SequenceSlice> batch, std::span<float> logits) override;
  void set_profile(Profile* profile) override { compute_.profile = profile; }
  void copy_page(PageId from, PageId to) override;
  std::optional<ExpertCounts> expert_counts() const override {
    return cache_ ? std::optional(cache_->counts()) : std::nullopt;
  }

 private:
  // Where the host's part of a step lies: in the staging memory, and the same in device memory.
  struct Inputs {
    size_t stream = 0, angles = 0, tokens = 0, pages = 0, logit_rows = 0, bytes = 0;
    int64_t n_pages = 0;      // in the list
    int64_t pages_apart = 0;  // from one sequence's to the next's; 0: each right behind the other
    int64_t n_logit_rows = 0;
    int32_t longest = 0;
    bool are_newest = true;  // each token, of a sequence of its own
  };
  // Which steps one graph serves: so many sequences that decode, of at most so many keys.
  using GraphKey = std::pair<int64_t, int32_t>;

  GpuDecoder(ModelSpec spec, Parts parts);
  // Whether the step's calls for experts are answered while it runs.
  bool has_calls(const StepTokens& step) const;
  Result<void> await_step(const StepTokens& step);
  bool is_graphed(const StepTokens& step) const;
  // Queues the step, whose inputs are written: as the graph that it is, or call by call.
  Result<void> queue_step(const StepTokens& step, const Inputs& inputs);
  int64_t n_allocations() const;
  GpuQueue queue() const { return {parts_.driver.get(), parts_.stream.id()}; }
  GpuAttentionShape attention_shape(int layer) const;

  Inputs measure(const StepTokens& step) const;
  Inputs lay_out(Inputs inputs, int64_t n_tokens) const;
  int64_t attended_at_once(GpuSplits splits, int64_t n_tokens) const;
  template <class F>
  Result<void> for_tokens_at_once(const GpuStepTokens& tokens, F f);
  Result<void> attend(const GpuAttentionShape& shape, const GpuStepTokens& tokens,
                      GpuRows<float> qkv, GpuRows<uint16_t> out);
  Result<void> attend_newest(const GpuAttentionShape& shape, const GpuStepTokens& tokens,
                             const GpuAttentionInput& input, GpuRows<uint16_t> out);
  GpuKv kv() const;
  Result<void> reserve(int64_t n_tokens, const Inputs& inputs);
  void write_inputs(const StepTokens& step, const Inputs& inputs);
  void write_stream(const StepTokens& step, std::span<float> stream);
  Result<void> run(const StepTokens& step, const Inputs& inputs);
  Result<void> run_layers(const StepTokens& step, const Inputs& inputs, GpuRows<float> x);
  Result<void> run_attention(int layer, const GpuStepTokens& tokens, GpuRows<float> x);
  Result<void> run_dense(const GpuFfnWeights& ffn, GpuRows<float> gate_up, GpuRows<float> x);
  Result<void> run_experts(int layer, const GpuNormed& normed, GpuRows<uint16_t> h,
                           GpuRows<float> x);
  Result<void> route(int layer, const GpuRouter& router, const GpuRouting& routing,
                     const GpuNormed& normed, GpuRows<uint16_t> h);
  Result<void> run_cached_experts(int layer, const GpuRouter& router, const GpuRouting& routing,
                                  GpuRows<const uint16_t> h, GpuRows<float> x);
  GpuAssignments assignments(const GpuRouting& routing, int64_t n_tokens, int n_experts) const;
  GpuRows<uint16_t> activations(const GpuExperts& experts, const GpuAssignments& assignments) const;
  Result<void> run_groups(const GpuExperts& experts, const GpuAssignments& assignments,
                          GpuRows<const uint16_t> h);
  Result<void> combine(const GpuAssignments& assignments, GpuRows<float> x);
  Result<void> run_ffn(int layer, GpuRows<float> x);
  Result<void> queue_logits(const Inputs& inputs, GpuRows<const float> x);
  void hand_over(const StepTokens& step, std::span<float> logits) const;
  GpuStepTokens step_tokens(const Inputs& inputs, int64_t n_tokens) const;
  template <class T>
  DeviceSpan<T> input(size_t offset, int64_t n) const {
    return inputs_.take(offset + static_cast<size_t>(n) * sizeof(T))
        .subspan(offset, static_cast<size_t>(n) * sizeof(T))
        .template as<T>();
  }

  ModelSpec spec_;
  DecoderParts layers_;
  Parts parts_;
  int64_t n_pages_ = 0;
  Compute compute_;
  MatrixView embedding_;
  GpuBuffer<uint16_t> kv_;
  Result<void> copied_;  // the pages since the last step
  std::optional<Event> step_done_;
  bool calls_for_experts_ = false;         // of the step that is being queued
  std::unique_ptr<GpuExpertCache> cache_;  // null: all experts have slots of their own
  HostStaging chosen_host_, groups_host_;  // of one layer, on its way from and to the GPU
  HostStaging to_device_, to_host_;
  // Those of the memory that there is now.
  std::map<GraphKey, Graph> graphs_;
  int64_t n_graphed_allocations_ = 0;
  size_t stream_at_ = 0;  // of what to_host_ holds behind the logits

  // Of a step: [n_tokens, ...]
  GpuBuffer<std::byte> inputs_;
  GpuBuffer<uint16_t> h_, act_, heads_out_;
  GpuBuffer<float> h_float_, qkv_, gate_up_, expert_out_, router_logits_, router_weights_, logits_;
  GpuBuffer<float> split_parts_, split_stats_;
  GpuBuffer<int32_t> chosen_, n_groups_, row_of_, token_of_;
  // How many thread blocks of a kernel are done, for the last of them: 0 between kernels.
  GpuBuffer<int32_t> arrived_;
  GpuBuffer<GpuExpertGroup> groups_;
};

}  // namespace penstock
