// Grouped-query attention of one layer: projections, head norms, rope, KV write, attention, output
// projection.
#pragma once

#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "kernels/attention/attention.h"
#include "memory/kv_store.h"
#include "memory/weights.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class AttentionBlock {
 public:
  // `prefix` names the layer: "layers.3.".
  static Result<AttentionBlock> load(const ModelSpec& spec, const AttentionPart& part,
                                     const WeightStore& weights, std::string_view prefix);

  // y = Wo attention(h).  h, y [n_tokens, hidden]; the step's keys and values go to `kv`, layer
  // `layer`.
  void forward(const Compute& compute, const StepTokens& step, const KvStore& kv, int layer,
               Rows<const float> h, Rows<float> y);

 private:
  void project(const Compute& compute, const StepTokens& step, Rows<const float> h);
  void rotate_and_store(const Compute& compute, const StepTokens& step, const KvStore& kv,
                        int layer);
  // One token's keys and values, [n_kv_heads, head_dim] each, into their place of a page.
  void store(const KvStore& kv, int layer, PageId page, int64_t slot, const float* k,
             const float* v) const;
  AttentionShape shape() const;
  void attend(const Compute& compute, const StepTokens& step, const KvStore& kv, int layer);

  AttentionPart part_;
  int n_heads_ = 0;
  int n_kv_heads_ = 0;
  int head_dim_ = 0;
  float rms_eps_ = 0;
  RopePairs pairs_ = RopePairs::kHalves;
  MatrixView wq_, wk_, wv_, wo_;
  std::vector<float> q_bias_, k_bias_, v_bias_, o_bias_;
  std::vector<float> q_norm_, k_norm_;
  // Kept from step to step for their memory only.
  AlignedVector<float> q_, k_, v_, heads_out_;
  std::vector<AlignedVector<float>> scratch_;  // one for each worker
};

}  // namespace penstock
