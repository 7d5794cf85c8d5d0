// The decoder-only transformer on the CPU: runs whatever parts its family composed.
#pragma once

#include <memory>
#include <tuple>
#include <variant>
#include <vector>

#include "base/scratch.h"
#include "cpu/pool.h"
#include "memory/bank_store.h"
#include "memory/expert_cache.h"
#include "memory/kv_store.h"
#include "memory/weights.h"
#include "model/blocks/attention_block.h"
#include "model/blocks/dense_ffn_block.h"
#include "model/blocks/moe_block.h"
#include "model/compute.h"
#include "model/language_model.h"

namespace penstock {

// Where all of a model is. Routed experts are in a bank or on disk behind the cache, by layer; else
// among the weights.
struct ModelMemory {
  WeightStore weights;
  std::unique_ptr<BankStore> banks = {};    // null: there are none
  std::unique_ptr<ExpertCache> cache = {};  // null: no expert stays on disk
  KvStore kv;
};

class Decoder final : public LanguageModel {
 public:
  // Every tensor the parts need is found, or this is an error that names the first missing one.
  static Result<std::unique_ptr<Decoder>> make(const ModelSpec& spec, ModelMemory memory,
                                               std::unique_ptr<Pool> pool, Isa isa,
                                               Precision precision);

  const ModelSpec& spec() const override { return spec_; }
  int64_t n_pages() const override { return memory_.kv.n_pages(); }
  Result<void> step(std::span<const SequenceSlice> batch, std::span<float> logits) override;
  void set_profile(Profile* profile) override;
  void set_routing_observer(RoutingObserver* observer) override { compute_.routing = observer; }
  void copy_page(PageId from, PageId to) override { memory_.kv.copy_page(from, to); }
  std::span<std::byte> page_memory(PageId page) override { return memory_.kv.page(page); }
  bool ready_pages(int64_t n_pages) override { return memory_.kv.commit_some(n_pages); }
  std::optional<WeightsRead> read_weights() override;
  std::optional<ExpertCounts> expert_counts() const override;

 private:
  struct Layer {
    std::vector<float> attention_norm, ffn_norm;
    AttentionBlock attention;
    std::variant<DenseFfnBlock, MoeBlock> ffn;
  };

  Decoder(ModelSpec spec, ModelMemory memory, std::unique_ptr<Pool> pool, Isa isa,
          Precision precision);
  Result<void> load_layers();
  Result<Layer> load_layer(const LayerParts& parts, int index) const;
  void embed(const StepTokens& step, Rows<float> x) const;
  Result<void> run_layers(const StepTokens& step, Rows<float> x);
  Result<void> run_layer(const StepTokens& step, int index, Rows<float> x);
  // What the layer after `index` will probably want of experts that stay on disk: what its router
  // chooses for the stream as it is now, which lacks this layer's experts and the next attention.
  MoeBlock::Ahead guess_ahead(int index, Rows<const float> x);
  void write_logits(const StepTokens& step, Rows<const float> x, std::span<float> logits);
  void add_residual(Rows<const float> y, Rows<float> x) const;
  void normalise(Rows<const float> x, std::span<const float> weight, Rows<float> y) const;

  ModelSpec spec_;
  ModelMemory memory_;
  std::unique_ptr<Pool> pool_;
  std::vector<FastActivations> activations_;
  Compute compute_;
  MatrixView embedding_, head_;
  std::vector<float> final_norm_;
  std::vector<Layer> layers_;
  // Memory of a step; [n_tokens, hidden]: the stream, its norm, a block's output.
  Scratch<float> x_, h_, y_;
  AttentionBlock::Buffers attention_;
  std::tuple<DenseFfnBlock::Buffers, MoeBlock::Buffers> ffn_;
  std::vector<ExpertGuess> guesses_;
};

}  // namespace penstock
