// The mixture-of-experts block of one layer: router, the chosen experts grouped by expert, the
// shared expert.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/scratch.h"
#include "kernels/router/router.h"
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

  static Result<MoeBlock> load(const ModelSpec& spec, const MoePart& part,
                               const WeightStore& weights, std::string_view prefix);

  // y[t] = sum over the chosen e of w_e * expert_e(h[t]), heaviest first, (+ shared(h[t])).  h, y
  // [n_tokens, hidden] Each expert's weights are read once for all tokens that chose it.
  void forward(const Compute& compute, const StepTokens& step, Buffers& buffers,
               Rows<const float> h, Rows<float> y) const;

 private:
  struct Expert {
    MatrixView gate, up, down;
  };
  // Rows of one expert in the grouped buffers.
  struct Group {
    const Expert* expert;
    Range rows;
    int64_t n_generated = 0;  // the first of them
  };

  void choose(const Compute& compute, Buffers& buffers, Rows<const float> h) const;
  std::vector<Group> group_by_expert(const Compute& compute, const StepTokens& step,
                                     Buffers& buffers) const;
  // The outputs of all groups: each expert as a whole by one worker, whose caches then keep what
  // goes from one product to the next; or, where experts are too few for that, the rows of each
  // product shared by all.
  void run_whole_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                         Rows<const float> h, Rows<float> outputs) const;
  void run_shared_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                          Rows<const float> h, Rows<float> outputs) const;
  void run_expert(const Compute& compute, const Group& group, std::span<const int64_t> tokens,
                  Buffers::Worker& worker, Rows<const float> h, Rows<float> outputs) const;
  OperationWork work_of_experts(std::span<const Group> groups) const;
  static void gather(const Compute& compute, std::span<const int64_t> token_of, Rows<const float> h,
                     Rows<float> inputs);
  void combine(const Compute& compute, const Buffers& buffers, Rows<const float> outputs,
               Rows<float> y) const;

  MoePart part_;
  MatrixView router_;
  std::vector<float> router_bias_;
  std::vector<Expert> experts_;
  std::optional<DenseFfnBlock> shared_;
};

}  // namespace penstock
