// The mixture-of-experts block of one layer: router, the chosen experts grouped by expert, the
// shared expert.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "kernels/router/router.h"
#include "memory/weights.h"
#include "model/blocks/dense_ffn_block.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class MoeBlock {
 public:
  static Result<MoeBlock> load(const ModelSpec& spec, const MoePart& part,
                               const WeightStore& weights, std::string_view prefix);

  // y[t] = sum over the chosen e of w_e * expert_e(h[t]), heaviest first, (+ shared(h[t])).  h, y
  // [n_tokens, hidden] Each expert's weights are read once for all tokens that chose it.
  void forward(const Compute& compute, const StepTokens& step, Rows<const float> h, Rows<float> y);

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

  void choose(const Compute& compute, Rows<const float> h);
  std::vector<Group> group_by_expert(const Compute& compute, const StepTokens& step);
  // outputs_ of all groups: each expert as a whole by one worker, whose caches then keep what goes
  // from one product to the next; or, where experts are too few for that, the rows of each product
  // shared by all.
  void run_whole_experts(const Compute& compute, std::span<const Group> groups,
                         Rows<const float> h);
  void run_shared_experts(const Compute& compute, std::span<const Group> groups,
                          Rows<const float> h);
  struct Worker;
  void run_expert(const Compute& compute, const Group& group, Rows<const float> h, Worker& worker);
  OperationWork work_of_experts(std::span<const Group> groups) const;
  void gather(const Compute& compute, Rows<const float> h);
  void combine(const Compute& compute, Rows<float> y) const;

  MoePart part_;
  MatrixView router_;
  std::vector<float> router_bias_;
  std::vector<Expert> experts_;
  std::optional<DenseFfnBlock> shared_;
  // Kept from step to step for their memory only. "Assignments" are (token, choice) pairs: n_tokens
  // * top_k of them.
  AlignedVector<float> logits_;        // [n_tokens, n_experts]
  std::vector<ExpertChoice> choices_;  // [n_tokens, top_k]
  std::vector<int64_t> row_of_;        // of each assignment, in the buffers grouped by expert
  std::vector<int64_t> token_of_;      // of each such row
  AlignedVector<float> inputs_, gate_out_, up_out_,
      outputs_;  // [assignments, hidden or expert_dim]
  AlignedVector<float> shared_out_;
  // What a worker needs to run an expert.
  struct Worker {
    AlignedVector<float> input, gate, up;
    ThreadProducts of_input, of_gate;
  };
  std::vector<Worker> workers_;
};

}  // namespace penstock
