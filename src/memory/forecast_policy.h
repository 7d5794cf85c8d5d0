// The eviction policy of the expert cache: what a slot buys for the time that it is held.
#pragma once

#include <span>
#include <vector>

#include "memory/eviction_policy.h"
#include "memory/expert_layout.h"

namespace penstock {

// An expert is worth the chance that it is used when its layer comes next, divided by how many
// layers there are until then: the hits that a slot buys for the time it is held.
//
// Layers come round in order, so when a layer comes next is known, and the last use of an expert
// says nothing of that. Its chance is how often its layer used it, whether it had a slot or not
// (what is forgotten with the slot can never show that it is wanted more than another), mixed with
// whether the layer's last visit used it, as much as such uses were seen to be repeated.
class ForecastPolicy final : public EvictionPolicy {
 public:
  // top_k: experts of a layer that a token uses.
  ForecastPolicy(int n_layers, int n_experts, int top_k);

  void use(int layer, std::span<const int> experts) override;
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override;

  // That the layer's next visit uses the expert.
  double chance(ExpertId id) const { return layers_[id.layer].experts[id.index].chance; }

 private:
  struct Expert {
    double n_uses = 0.0;  // decayed
    double chance = 0.0;
    bool was_used = false;  // by the layer's last visit
  };
  struct Layer {
    double n_visits = 0.0;  // decayed
    std::vector<Expert> experts;
  };

  double frequency(const Layer& layer, const Expert& expert) const;
  void learn_repeats(const Layer& layer, std::span<const int> experts);

  std::vector<Layer> layers_;
  double share_ = 0.0;  // of a layer's experts that a token uses
  int current_ = 0;     // layer that was visited last
  // Of experts that a visit used, decayed: how many there were, how many of them the layer's next
  // visit used too, and how many of them it would have used by their frequency alone.
  double n_last_ = 0.0, n_repeated_ = 0.0, n_expected_ = 0.0;
};

}  // namespace penstock
