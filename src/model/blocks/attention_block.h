// Grouped-query attention of one layer: projections, head norms, rope, KV write, attention, output
// projection.
#pragma once

#include <string_view>
#include <vector>

#include "base/scratch.h"
#include "kernels/attention/attention.h"
#include "memory/kv_store.h"
#include "memory/weights.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class AttentionBlock {
 public:
  // Memory of a step, for the layers to use one after the other: what one leaves in the caches the
  // next writes over.
  struct Buffers {
    Scratch<float> q, k, v, heads_out;
    std::vector<Scratch<float>> of_workers;
  };

  // `prefix` names the layer: "layers.3.".
  static Result<AttentionBlock> load(const ModelSpec& spec, const AttentionPart& part,
                                     const WeightStore& weights, std::string_view prefix);

  // y = Wo attention(h).  h, y [n_tokens, hidden]; the step's keys and values go to `kv`, layer
  // `layer`.
  void forward(const Compute& compute, const StepTokens& step, const KvStore& kv, int layer,
               Buffers& buffers, Rows<const float> h, Rows<float> y) const;

 private:
  struct Heads {
    Rows<float> q, k, v;  // [n_tokens, heads * head_dim]
  };
  Heads project(const Compute& compute, const StepTokens& step, Buffers& buffers,
                Rows<const float> h) const;
  void rotate_and_store(const Compute& compute, const StepTokens& step, const KvStore& kv,
                        int layer, const Heads& heads) const;
  // One token's keys and values, [n_kv_heads, head_dim] each, into their place of a page.
  void store(const KvStore& kv, int layer, PageId page, int64_t slot, const float* k,
             const float* v) const;
  AttentionShape shape() const;
  void attend(const Compute& compute, const StepTokens& step, const KvStore& kv, int layer,
              Rows<const float> q, std::vector<Scratch<float>>& of_workers, Rows<float> out) const;

  AttentionPart part_;
  int n_heads_ = 0;
  int n_kv_heads_ = 0;
  int head_dim_ = 0;
  float rms_eps_ = 0;
  RopePairs pairs_ = RopePairs::kHalves;
  MatrixView wq_, wk_, wv_, wo_;
  std::vector<float> q_bias_, k_bias_, v_bias_, o_bias_;
  std::vector<float> q_norm_, k_norm_;
};

}  // namespace penstock
