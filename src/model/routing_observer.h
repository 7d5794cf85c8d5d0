// Who is told which experts a model's routers choose: what `penstock bench --record-routing` asks
// the model.
#pragma once

#include <cstdint>
#include <span>

namespace penstock {

// Called by the model's thread, in a step's order.
class RoutingObserver {
 public:
  virtual ~RoutingObserver() = default;

  virtual void begin_step(int64_t n_prompt, int64_t n_generated) = 0;  // tokens of each origin
  // Experts that tokens of the step chose in a layer, each once, ascending.
  virtual void visit(int layer, std::span<const int> experts) = 0;
};

}  // namespace penstock
