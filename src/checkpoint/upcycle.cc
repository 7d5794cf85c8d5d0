#include "checkpoint/upcycle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixing function. Written out because
// packs made anywhere must be equal, and the standard library's distributions are not.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n): draws from the incomplete last stretch are thrown away.
  uint64_t below(uint64_t n) {
    const uint64_t whole = std::numeric_limits<uint64_t>::max() / n * n;
    uint64_t draw = next();
    while (draw >= whole) draw = next();
    return draw % n;
  }

 private:
  uint64_t state_;
};

enum class Stream : uint64_t { kOrder = 1, kRouter = 2 };

// A generator of its own for everything that is drawn.
SplitMix64 stream(uint64_t seed, Stream what, int layer) {
  SplitMix64 mixed(seed);
  mixed = SplitMix64(mixed.next() ^ static_cast<uint64_t>(what));
  return SplitMix64(mixed.next() ^ static_cast<uint64_t>(layer));
}

// Fisher and Yates.
BlockOrder shuffled(int64_t n_blocks, SplitMix64& random) {
  BlockOrder order(static_cast<size_t>(n_blocks));
  std::iota(order.begin(), order.end(), 0U);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Whether n! - 1 >= wanted: orders of n blocks without the identity.
bool has_orders(int64_t n, int wanted) {
  int64_t orders = 1;
  for (int64_t i = 2; i <= n; ++i) {
    orders *= i;
    if (orders - 1 >= wanted) return true;
  }
  return orders - 1 >= wanted;
}

// The smallest run of the intermediate dimension that can be moved without touching what is
// stored: along the rows of gate and up, along the columns of down.
int64_t row_unit(const StoredTensor& tensor) {
  return tensor.format == Format::kFp8Block ? tensor.block_rows : 1;
}
int64_t col_unit(const StoredTensor& tensor) {
  return tensor.format == Format::kFp8Block ? tensor.group_cols : info(tensor.format).group;
}

struct Mlp {
  StoredTensor gate = {};
  StoredTensor up = {};
  StoredTensor down = {};
};

Result<StoredTensor> find(const TensorTable& tensors, int layer, std::string_view part) {
  const std::string name = fmt::format("layers.{}.{}", layer, part);
  const auto found = tensors.find(name);
  if (found == tensors.end()) return fail(ErrorKind::kInvalidData, "the model has no {}", name);
  return found->second;
}

Result<Mlp> find_mlp(const TensorTable& tensors, int layer) {
  Mlp mlp;
  PENSTOCK_ASSIGN(mlp.gate, find(tensors, layer, "gate"));
  PENSTOCK_ASSIGN(mlp.up, find(tensors, layer, "up"));
  PENSTOCK_ASSIGN(mlp.down, find(tensors, layer, "down"));
  return mlp;
}

// How many blocks the intermediate dimension makes when the MLP is moved as stored or, if
// `encoded`, row by row (the formats that can be encoded have groups of at most kUpcycleBlock, so a
// matrix that is in that format already moves as well).
Result<int64_t> count_blocks(const Mlp& mlp, bool encoded) {
  const int64_t dim = mlp.gate.rows;
  int64_t block = kUpcycleBlock;
  if (!encoded) {
    for (const StoredTensor* tensor : {&mlp.gate, &mlp.up, &mlp.down}) {
      if (info(tensor->format).group_bytes == 0) {
        return std::unexpected(
            Error{.kind = ErrorKind::kUnsupported,
                  .message = fmt::format("{} is {}, whose blocks cannot be moved as stored",
                                         tensor->source_name, info(tensor->format).name),
                  .hint = "--experts-format encodes the experts anew"});
      }
    }
    block = std::lcm(block, row_unit(mlp.gate));
    block = std::lcm(block, row_unit(mlp.up));
    block = std::lcm(block, col_unit(mlp.down));
  }
  if (dim % block != 0) {
    return fail(ErrorKind::kUnsupported,
                "{} has an intermediate dimension of {}, not a multiple of its blocks of {}",
                mlp.gate.source_name, dim, block);
  }
  return dim / block;
}

class LayerRecipes {
 public:
  LayerRecipes(int layer, std::optional<Format> experts_format, std::vector<TensorRecipe>& out)
      : layer_(layer), experts_format_(experts_format), out_(out) {}

  void add_expert(int expert, const Mlp& mlp, std::shared_ptr<const BlockOrder> order) {
    out_.push_back(expert_part(expert, "gate", mlp.gate));
    out_.back().row_order = order;
    out_.push_back(expert_part(expert, "up", mlp.up));
    out_.back().row_order = order;
    out_.push_back(expert_part(expert, "down", mlp.down));
    out_.back().col_order = std::move(order);
  }

  void add_router(const UpcycleOptions& options, int64_t hidden_dim) {
    TensorRecipe router;
    router.name = fmt::format("layers.{}.router", layer_);
    router.source = {.source_name = router.name,
                     .format = Format::kF32,
                     .rows = options.n_experts,
                     .cols = hidden_dim};
    router.noise_seed = stream(options.seed, Stream::kRouter, layer_).next();
    out_.push_back(std::move(router));
  }

 private:
  TensorRecipe expert_part(int expert, std::string_view part, const StoredTensor& source) const {
    TensorRecipe recipe;
    recipe.name = fmt::format("layers.{}.experts.{}.{}", layer_, expert, part);
    recipe.source = source;
    recipe.format = experts_format_.value_or(source.format);
    return recipe;
  }

  int layer_;
  std::optional<Format> experts_format_;
  std::vector<TensorRecipe>& out_;
};

bool is_dense_mlp(std::string_view name) {
  return name.starts_with("layers.") && !name.contains(".experts.") && !name.contains(".shared.") &&
         (name.ends_with(".gate") || name.ends_with(".up") || name.ends_with(".down"));
}

}  // namespace

Result<ModelSpec> upcycle_spec(const ModelSpec& spec, const UpcycleOptions& options) {
  constexpr int kMaxExperts = 65'535;
  if (options.n_experts < 2 || options.n_experts > kMaxExperts) {
    return fail(ErrorKind::kInvalidArgument, "--upcycle takes 2 to {} experts, found {}",
                kMaxExperts, options.n_experts);
  }
  if (options.top_k < 1 || options.top_k > options.n_experts) {
    return fail(ErrorKind::kInvalidArgument, "--top-k takes 1 to {} (the experts), found {}",
                options.n_experts, options.top_k);
  }
  const bool llama_like = spec.family == Family::kLlama || spec.family == Family::kQwen2 ||
                          spec.family == Family::kQwen3;
  if (!llama_like || spec.moe.n_experts > 0) {
    return fail(ErrorKind::kUnsupported,
                "cannot upcycle a {} model{}: expected a dense llama, qwen2 or qwen3",
                to_string(spec.family), spec.moe.n_experts > 0 ? " with experts" : "");
  }
  if (spec.mlp_bias) {
    return fail(ErrorKind::kUnsupported,
                "cannot upcycle a model with biases in its MLP: experts have none");
  }
  ModelSpec upcycled = spec;
  upcycled.moe = {.n_experts = options.n_experts,
                  .top_k = options.top_k,
                  .expert_dim = static_cast<int>(spec.ffn_dim),
                  .router = {.score = RouterScore::kSoftmax, .renormalize = true}};
  for (LayerSpec& layer : upcycled.layers) layer.is_moe = true;
  return upcycled;
}

Result<std::vector<BlockOrder>> upcycle_orders(const UpcycleOptions& options, int layer,
                                               int64_t n_blocks) {
  if (!has_orders(n_blocks, options.n_experts)) {
    return fail(ErrorKind::kUnsupported,
                "{} blocks of the intermediate dimension have too few orders for {} experts that "
                "all differ",
                n_blocks, options.n_experts);
  }
  BlockOrder identity(static_cast<size_t>(n_blocks));
  std::iota(identity.begin(), identity.end(), 0U);

  SplitMix64 random = stream(options.seed, Stream::kOrder, layer);
  std::vector<BlockOrder> orders;
  std::set<BlockOrder> taken = {std::move(identity)};
  while (orders.size() < static_cast<size_t>(options.n_experts)) {
    BlockOrder order = shuffled(n_blocks, random);
    if (taken.insert(order).second) orders.push_back(std::move(order));
  }
  return orders;
}

void router_noise(uint64_t seed, int expert, std::span<float> row) {
  SplitMix64 random = stream(seed, Stream::kRouter, expert);
  const auto width = static_cast<float>(std::sqrt(3.0 / static_cast<double>(row.size())));
  for (float& value : row) {
    const auto draw = static_cast<float>(random.next() >> 40) * 0x1p-23F;  // 24 bits: [0, 2)
    value = (draw - 1.0F) * width;
  }
}

Result<std::vector<TensorRecipe>> upcycle_recipes(const Checkpoint& source,
                                                  const UpcycleOptions& options,
                                                  std::optional<Format> experts_format) {
  std::vector<TensorRecipe> recipes;
  for (const auto& [name, tensor] : source.tensors) {
    if (is_dense_mlp(name)) continue;
    recipes.push_back({.name = name, .source = tensor, .format = tensor.format});
  }
  for (int layer = 0; layer < source.spec.n_layers(); ++layer) {
    PENSTOCK_ASSIGN(const Mlp mlp, find_mlp(source.tensors, layer));
    PENSTOCK_ASSIGN(const int64_t n_blocks, count_blocks(mlp, experts_format.has_value()));
    PENSTOCK_ASSIGN(auto orders, upcycle_orders(options, layer, n_blocks));
    LayerRecipes add(layer, experts_format, recipes);
    add.add_router(options, source.spec.hidden_dim);
    for (int expert = 0; expert < options.n_experts; ++expert) {
      auto order =
          std::make_shared<const BlockOrder>(std::move(orders[static_cast<size_t>(expert)]));
      add.add_expert(expert, mlp, std::move(order));
    }
  }
  return recipes;
}

}  // namespace penstock
