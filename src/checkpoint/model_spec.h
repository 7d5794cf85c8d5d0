// ModelSpec: what a model is, in one shape for every file format; the families in model/ are built
// from it alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

enum class Family : uint8_t { kLlama, kQwen2, kQwen3, kMixtral, kQwen3Moe, kGlm4Moe };
std::string_view to_string(Family family);

enum class RopeType : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLlama3, kLongrope };

// Which two elements of a head turn together: (j, j + d/2), or (2j, 2j + 1).
enum class RopePairs : uint8_t { kHalves, kInterleaved };

// Formulas: docs/models.md, "Rope". Fields that a type does not use keep their defaults.
struct RopeSpec {
  RopeType type = RopeType::kDefault;
  RopePairs pairs = RopePairs::kHalves;
  int rotary_dims = 0;  // the first so many of each head; even
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_context = 0;
  double low_freq_factor = 1.0;                 // llama3
  double high_freq_factor = 4.0;                // llama3
  double beta_fast = 32.0;                      // yarn
  double beta_slow = 1.0;                       // yarn
  bool truncate = true;                         // yarn
  std::optional<double> attention_factor = {};  // yarn, longrope
  double mscale = 0.0;                          // yarn
  double mscale_all_dim = 0.0;                  // yarn
  std::vector<double> short_factor = {};        // longrope [rotary_dims / 2]
  std::vector<double> long_factor = {};         // longrope [rotary_dims / 2]
  std::vector<float> freq_divisors =
      {};  // GGUF's rope_freqs [rotary_dims / 2]: each frequency is divided by its own

  bool operator==(const RopeSpec&) const = default;
};

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

struct RouterSpec {
  RouterScore score = RouterScore::kSoftmax;
  bool has_bias = false;    // a bias that steers the choice only
  bool renormalize = true;  // weights of the chosen sum to 1 before `scale`
  int n_groups = 1;         // experts are chosen within the best top_groups of n_groups groups
  int top_groups = 1;
  double scale = 1.0;

  bool operator==(const RouterSpec&) const = default;
};

struct MoeSpec {
  int n_experts = 0;  // 0: a dense model
  int top_k = 0;
  int expert_dim = 0;  // intermediate size of one expert
  int shared_dim = 0;  // intermediate size of the shared expert; 0: none
  RouterSpec router = {};

  bool operator==(const MoeSpec&) const = default;
};

struct LayerSpec {
  bool is_moe = false;
  int64_t window = 0;  // a token sees itself and window - 1 before it; 0: all

  bool operator==(const LayerSpec&) const = default;
};

struct ModelSpec {
  Family family = Family::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_dim = 0;
  int64_t ffn_dim = 0;  // of dense layers
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int64_t context_length = 0;
  double rms_eps = 1e-6;
  bool tied_head = false;  // the output matrix is the embedding
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm of each head of q and k before rope
  RopeSpec rope = {};
  MoeSpec moe = {};
  std::vector<LayerSpec> layers = {};

  int n_layers() const { return static_cast<int>(layers.size()); }
  bool operator==(const ModelSpec&) const = default;
};

// Every field, so that a pack holds the spec itself; spec_from_json refuses what to_json could not
// have written.
Json to_json(const ModelSpec& spec);
Result<ModelSpec> spec_from_json(const Json& json);

// Refuses a spec whose numbers contradict each other (heads not a multiple of kv heads, top_k >
// n_experts, ...).
Result<void> validate(const ModelSpec& spec);

}  // namespace penstock
