// The dense feed-forward block of one layer: y = Wd (silu(Wg h) * (Wu h)).
#pragma once

#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "memory/weights.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class DenseFfnBlock {
 public:
  // `prefix` stands before "gate", "up" and "down": "layers.3.".
  static Result<DenseFfnBlock> load(const DensePart& part, const WeightStore& weights,
                                    std::string_view prefix);

  // h, y [n_tokens, hidden]
  void forward(const Compute& compute, const StepTokens& step, Rows<const float> h, Rows<float> y);

 private:
  MatrixView gate_, up_, down_;
  std::vector<float> gate_bias_, up_bias_, down_bias_;
  AlignedVector<float> gate_out_, up_out_;  // kept for their memory only
};

}  // namespace penstock
