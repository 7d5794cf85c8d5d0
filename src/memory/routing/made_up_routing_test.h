// Routing records for tests: random ones, of which nobody claims that a model routes so.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "memory/routing/routing_record.h"

namespace penstock {

struct MadeUpRouting {
  int n_layers = 4;
  int n_experts = 6;
  int n_steps = 40;
  int most_experts = 2;  // of a visit
  // Layers are visited in order, each in each step; else in any order, some of them.
  bool is_cyclic = true;
  // How often an expert that the layer's last visit used is kept, of 10 times.
  uint32_t repeats = 0;
};

inline RoutingRecord made_up_routing(const MadeUpRouting& shape, std::mt19937& random) {
  RoutingRecord record({.model = "made up",
                        .n_layers = shape.n_layers,
                        .n_experts = shape.n_experts,
                        .top_k = std::min(2, shape.n_experts)});
  std::vector<std::vector<int>> last(static_cast<size_t>(shape.n_layers));
  for (int step = 0; step < shape.n_steps; ++step) {
    record.begin_step(random() % 5 == 0 ? 3 : 0, 1);
    for (int layer = 0; layer < shape.n_layers; ++layer) {
      if (!shape.is_cyclic && random() % 2 == 0) continue;
      std::vector<int>& experts = last[static_cast<size_t>(layer)];
      std::erase_if(experts, [&](int) { return random() % 10 >= shape.repeats; });
      const size_t n = 1 + random() % static_cast<uint32_t>(shape.most_experts);
      while (experts.size() < n) {
        // Low numbers are wanted more often.
        const auto limit = 1 + random() % static_cast<uint32_t>(shape.n_experts);
        const auto e = static_cast<int>(random() % limit);
        if (std::ranges::find(experts, e) == experts.end()) experts.push_back(e);
      }
      experts.resize(n);
      std::ranges::sort(experts);
      record.add_visit(layer, experts);
    }
  }
  return record;
}

}  // namespace penstock
