// Tries every split of a model's banks over a machine and keeps the best.
#pragma once

#include <optional>

#include "base/function_ref.h"
#include "memory/plan/prediction.h"

namespace penstock {

// On one GPU, or on none: what layouts of a model are made and compared with.
class SearchSpace {
 public:
  // gpu: an index into machine.gpus; kNoGpu for none. All arguments outlive this.
  static constexpr int kNoGpu = -1;
  SearchSpace(const ModelDemands& demands, const Machine& machine, int gpu, const Limits& limits);
  SearchSpace(const SearchSpace&) = delete;
  SearchSpace& operator=(const SearchSpace&) = delete;

  int gpu() const { return gpu_; }
  const BankOrder& order() const { return order_; }
  const Predictor& predictor() const { return predictor_; }

  // The layout whose turn is shortest; nothing if none fits.
  std::optional<MemoryLayout> best() const;
  // The layout that is nearest to fitting.
  MemoryLayout nearest() const;

 private:
  void for_each_layout(FunctionRef<void(const MemoryLayout&)> visit) const;
  void for_each_cover(Split split, FunctionRef<void(const MemoryLayout&)> visit) const;
  bool is_allowed(const Split& split) const;

  const ModelDemands& demands_;
  const Limits& limits_;
  int gpu_;
  const MachineGpu* gpu_machine_;
  uint64_t pin_budget_;
  PlanRates rates_;
  BankOrder order_;
  LayoutMaker maker_;
  Predictor predictor_;
};

}  // namespace penstock
