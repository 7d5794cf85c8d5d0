// Upcycling: a dense Llama-like model as a mixture of experts that computes the same function.
// Every expert is the layer's MLP with its intermediate dimension in another order of blocks, and
// the router is noise. docs/pack.md, "Upcycling".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/pack_recipe.h"

namespace penstock {

struct UpcycleOptions {
  int n_experts = 8;
  int top_k = 2;
  uint64_t seed = 0;
};

// Blocks of this many rows, or the formats' own groups where those are larger.
inline constexpr int64_t kUpcycleBlock = 32;

// The source's spec with every layer's MLP turned into experts; an error says why it cannot be.
// The weights of the chosen experts are renormalised to sum to 1, which keeps the function.
Result<ModelSpec> upcycle_spec(const ModelSpec& spec, const UpcycleOptions& options);

// The tensors of the upcycled model. With `experts_format` experts are encoded anew, otherwise
// their blocks are moved as they are stored.
Result<std::vector<TensorRecipe>> upcycle_recipes(const Checkpoint& source,
                                                  const UpcycleOptions& options,
                                                  std::optional<Format> experts_format);

// One order of `n_blocks` blocks for each of `n_experts` experts of a layer: all different, none
// the identity. n_blocks! must leave room for that; an error says so.
Result<std::vector<BlockOrder>> upcycle_orders(const UpcycleOptions& options, int layer,
                                               int64_t n_blocks);

// Row `expert` of a noise router: uniform in +-sqrt(3 / cols), so that a normed input gives scores
// of about unit variance.
void router_noise(uint64_t seed, int expert, std::span<float> row);

}  // namespace penstock
