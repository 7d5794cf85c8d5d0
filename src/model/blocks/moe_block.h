// The mixture-of-experts block of one layer: router, the chosen experts grouped by expert, the
// shared expert.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/scratch.h"
#include "kernels/router/router.h"
#include "memory/bank_store.h"
#include "memory/expert_cache.h"
#include "memory/weights.h"
#include "model/blocks/dense_ffn_block.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class MoeBlock {
 public:
  // Memory of a step, for the layers to use one after the other: what one leaves in the caches the
  // next writes over. "Assignments" are (token, choice) pairs: n_tokens * top_k of them.
  struct Buffers {
    // What a worker needs to run an expert.
    struct Worker {
      Scratch<float> input, gate, up;
      ThreadProducts of_input, of_gate;
    };

    Scratch<float> logits;                   // [n_tokens, n_experts]
    std::vector<ExpertChoice> choices = {};  // [n_tokens, top_k]
    std::vector<int64_t> row_of = {};        // of each assignment, in the buffers grouped by expert
    std::vector<int64_t> token_of = {};      // of each such row
    Scratch<float> input, gate, up, output;  // [assignments, hidden or expert_dim]
    Scratch<float> shared_output;
    DenseFfnBlock::Buffers of_shared;
    std::vector<Worker> workers = {};
  };

  // The number of the block's layer, and where its experts may be: in a bank, else on disk behind
  // the cache; without both among the weights. All outlive the block.
  struct LayerExperts {
    const BankStore* banks = nullptr;
    ExpertCache* cache = nullptr;
    int index = 0;
  };
  static Result<MoeBlock> load(const ModelSpec& spec, const MoePart& part,
                               const WeightStore& weights, std::string_view prefix,
                               LayerExperts layer);

  // Whether its experts stay on disk.
  bool is_on_disk() const { return cache_ != nullptr; }

  // The experts that the router would choose for h: for a layer that has not come yet a guess.
  // Each expert once, the heaviest choices first.
  void guess_experts(const Compute& compute, Buffers& buffers, Rows<const float> h,
                     std::vector<ExpertGuess>& guesses) const;

  // Experts of the next layer that it will probably ask for: read once this layer's own reads have
  // begun.
  struct Ahead {
    ExpertCache* cache = nullptr;
    int layer = 0;
    std::span<const ExpertGuess> guesses = {};

    void prefetch() const {
      if (!guesses.empty()) cache->prefetch(layer, guesses);
    }
  };

  // y[t] = sum over the chosen e of w_e * expert_e(h[t]), heaviest first, (+ shared(h[t])).  h, y
  // [n_tokens, hidden] Each expert's weights are read once for all tokens that chose it. Fails when
  // an expert cannot be read from disk.
  Result<void> forward(const Compute& compute, const StepTokens& step, Buffers& buffers,
                       Rows<const float> h, Rows<float> y, const Ahead& ahead) const;

 private:
  // Rows of one expert in the grouped buffers.
  struct Group {
    int expert;
    Range rows;
    int64_t n_generated = 0;  // the first of them
    const ExpertMatrices* matrices = nullptr;
  };

  Result<void> find_experts(const WeightStore& weights, std::string_view prefix,
                            const LayerExperts& layer);
  void choose(const Compute& compute, Buffers& buffers, Rows<const float> h) const;
  std::vector<Group> group_by_expert(const Compute& compute, const StepTokens& step,
                                     Buffers& buffers) const;
  void tell(RoutingObserver& observer, std::span<const Group> groups) const;
  // The outputs of experts that have to be read: those that are there first, then the others as
  // they come, in as many waves as the cache's slots need.
  Result<void> run_from_disk(const Compute& compute, std::span<const Group> groups,
                             Buffers& buffers, Rows<const float> h, Rows<float> outputs,
                             const Ahead& ahead) const;
  // The outputs of these groups: each expert as a whole by one worker, whose caches then keep what
  // goes from one product to the next; or, where experts are too few for that, the rows of each
  // product shared by all.
  void run_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                   Rows<const float> h, Rows<float> outputs) const;
  void run_whole_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                         Rows<const float> h, Rows<float> outputs) const;
  void run_shared_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                          Rows<const float> h, Rows<float> outputs) const;
  void run_expert(const Compute& compute, const Group& group, std::span<const int64_t> tokens,
                  Buffers::Worker& worker, Rows<const float> h, Rows<float> outputs) const;
  OperationWork work_of_experts(std::span<const Group> groups) const;
  // The rows of the groups, shared by the workers as for_each_row does: `body` gets neighbouring
  // rows of one group.
  static void for_rows_of(const Compute& compute, std::span<const Group> groups, int64_t row_work,
                          FunctionRef<void(Range rows)> body);
  void combine(const Compute& compute, const Buffers& buffers, Rows<const float> outputs,
               Rows<float> y) const;

  MoePart part_;
  MatrixView router_;
  std::vector<float> router_bias_;
  std::vector<ExpertMatrices> experts_;  // empty: they stay on disk
  ExpertCache* cache_ = nullptr;         // then has them
  int layer_ = 0;
  std::optional<DenseFfnBlock> shared_;
};

}  // namespace penstock
