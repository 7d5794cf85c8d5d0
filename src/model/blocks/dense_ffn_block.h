// The dense feed-forward block of one layer: y = Wd (silu(Wg h) * (Wu h)).
#pragma once

#include <string_view>
#include <vector>

#include "base/scratch.h"
#include "memory/weights.h"
#include "model/compute.h"
#include "model/decoder_spec.h"
#include "model/step_tokens.h"

namespace penstock {

class DenseFfnBlock {
 public:
  // Memory of a step, for the layers to use one after the other.
  struct Buffers {
    Scratch<float> gate, up;
  };

  // `prefix` stands before "gate", "up" and "down": "layers.3.".
  static Result<DenseFfnBlock> load(const DensePart& part, const WeightStore& weights,
                                    std::string_view prefix);

  // h, y [n_tokens, hidden]
  void forward(const Compute& compute, const StepTokens& step, Buffers& buffers,
               Rows<const float> h, Rows<float> y) const;

 private:
  MatrixView gate_, up_, down_;
  std::vector<float> gate_bias_, up_bias_, down_bias_;
};

}  // namespace penstock
