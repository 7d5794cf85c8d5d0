// What a model demands of a machine: bytes to keep and bytes to read for each token, taken from a
// checkpoint's headers or, for a model that nothing here can run yet, written by hand as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "memory/kv_store.h"

namespace penstock {

// A run of layers whose banks are alike.
struct BankDemand {
  int n_layers = 1;
  int n_experts = 0;  // of each layer; 0: the layers are dense and have no bank
  int top_k = 0;
  uint64_t expert_bytes = 0;  // of one expert as stored
  int64_t expert_params = 0;  // its weights; 0: not known, so nothing is known of its arithmetic
  std::string format = {};    // of its weights ("nvfp4"): which CPU rate counts

  uint64_t bank_bytes() const { return static_cast<uint64_t>(n_experts) * expert_bytes; }
  uint64_t active_bytes() const { return static_cast<uint64_t>(top_k) * expert_bytes; }
  bool operator==(const BankDemand&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct ModelDemands {
  std::string name = {};
  int64_t context_length = 0;
  // Weights that each token reads whole: all but the experts and tables of rows.
  uint64_t dense_bytes = 0;
  int64_t dense_params = 0;  // 0: not known
  std::string dense_format = {};
  // An embedding that is no head as well: one row a token, so it stays in RAM even with a GPU.
  uint64_t embed_bytes = 0;
  std::vector<BankDemand> layers = {};  // in the model's order
  uint64_t kv_bytes_a_token = 0;
  std::string kv_format = {};
  // What a sequence keeps whatever its length: recurrent states, windows.
  uint64_t sequence_bytes = 0;
  uint64_t row_table_bytes = 0;
  int rows_a_token = 0;
  // Activations of a step with a chunk of so many tokens.
  uint64_t workspace_bytes = 0;
  int chunk_tokens = 512;

  int n_layers() const;
  int64_t n_experts() const;  // of all layers
  uint64_t banks_bytes() const;
  uint64_t bytes() const;  // weights of every kind
  bool operator==(const ModelDemands&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

inline constexpr int kMostPlannedLayers = 1024;
inline constexpr int64_t kMostContextTokens = int64_t{1} << 30;

OrderedJson to_json(const ModelDemands& demands);
// As machine_from_json: every field is checked, unknown ones are refused by name.
Result<ModelDemands> demands_from_json(const Json& json);
Result<ModelDemands> parse_demands(std::string_view text);

// From the headers alone: no weight is read.
Result<ModelDemands> demands_of(const Checkpoint& checkpoint, KvFormat kv_format);

}  // namespace penstock
