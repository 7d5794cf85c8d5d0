#include "model/blocks/dense_ffn_block.h"

#include <array>

#include "kernels/swiglu/swiglu.h"

namespace penstock {
namespace {

Rows<float> part_of(Rows<float> rows, Range range) {
  return {rows.row(range.begin), range.size(), rows.cols, rows.stride};
}

}  // namespace

Result<DenseFfnBlock> DenseFfnBlock::load(const DensePart& part, const WeightStore& weights,
                                          std::string_view prefix) {
  const auto name = [&](std::string_view tensor) { return fmt::format("{}{}", prefix, tensor); };
  DenseFfnBlock block;
  PENSTOCK_ASSIGN(block.gate_, weights.matrix(name("gate")));
  PENSTOCK_ASSIGN(block.up_, weights.matrix(name("up")));
  PENSTOCK_ASSIGN(block.down_, weights.matrix(name("down")));
  if (part.bias) {
    PENSTOCK_ASSIGN(block.gate_bias_, weights.vector(name("gate_bias"), block.gate_.rows));
    PENSTOCK_ASSIGN(block.up_bias_, weights.vector(name("up_bias"), block.up_.rows));
    PENSTOCK_ASSIGN(block.down_bias_, weights.vector(name("down_bias"), block.down_.rows));
  }
  return block;
}

void DenseFfnBlock::forward(const Compute& compute, const StepTokens& step, Buffers& buffers,
                            Rows<const float> h, Rows<float> y) const {
  const auto gate = scratch_rows(buffers.gate, h.n_rows, gate_.rows);
  const auto up = scratch_rows(buffers.up, h.n_rows, up_.rows);
  const std::array inputs = {MatmulJob{&gate_, h, gate, step.n_generated()},
                             MatmulJob{&up_, h, up, step.n_generated()}};
  {
    const OperationTimer timer(compute.profile, Operation::kFfnGateUp,
                               [&] { return work_of(inputs); });
    run_matmuls(compute, inputs);
  }
  {
    const OperationTimer timer(compute.profile, Operation::kFfnActivation);
    for_each_row(compute, h.n_rows, gate.cols * kConversion, [&](Range range) {
      add_bias(gate_bias_, gate, range);
      add_bias(up_bias_, up, range);
      swiglu_exact(compute.isa, part_of(gate, range), part_of(up, range), part_of(gate, range));
    });
  }
  const MatmulJob output = {&down_, gate, y, step.n_generated()};
  const OperationTimer timer(compute.profile, Operation::kFfnDown,
                             [&] { return work_of({&output, 1}); });
  run_matmuls(compute, std::span(&output, 1));
  if (!down_bias_.empty()) {
    for_each_row(compute, y.n_rows, y.cols * kPlainPass,
                 [&](Range range) { add_bias(down_bias_, y, range); });
  }
}

}  // namespace penstock
