// A checkpoint's headers as demands: what its tensors weigh, and what running it takes beside them.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "checkpoint/needed_tensors.h"
#include "kernels/attention/attention.h"
#include "memory/plan/demands.h"

namespace penstock {
namespace {

constexpr int kChunkTokens = 512;  // the most that the engine puts into one chunk of a prompt

uint64_t stored_bytes(const StoredTensor& tensor) {
  return tensor.data.bytes + tensor.scales.bytes + tensor.zeros.bytes + tensor.groups.bytes;
}

int64_t n_weights(const StoredTensor& tensor) { return tensor.rows * tensor.cols; }

bool is_of_expert(const NeededTensor& needed) { return needed.expert >= 0; }

// Which format has the most of some bytes: that one decides how fast they are read.
class FormatShares {
 public:
  void add(const StoredTensor& tensor) { bytes_[tensor.format] += stored_bytes(tensor); }
  std::string largest() const {
    const auto most =
        std::ranges::max_element(bytes_, {}, [](const auto& share) { return share.second; });
    return most == bytes_.end() ? "" : std::string(info(most->first).name);
  }

 private:
  std::map<Format, uint64_t> bytes_;
};

// One layer's experts, and the largest of them: a slot holds any.
struct BankSum {
  uint64_t largest_bytes = 0;
  int64_t largest_params = 0;
  FormatShares formats = {};
  int expert = -1;  // being added up
  uint64_t bytes = 0;
  int64_t params = 0;

  void add(int of_expert, const StoredTensor& tensor) {
    if (of_expert != expert) bytes = 0, params = 0;
    expert = of_expert;
    bytes += stored_bytes(tensor);
    params += n_weights(tensor);
    largest_bytes = std::max(largest_bytes, bytes);
    largest_params = std::max(largest_params, params);
    formats.add(tensor);
  }
};

// What blocks keep of a chunk while it crosses a layer, in float32 (model/blocks: their Buffers):
// the residual stream, its norm and a block's output; then the largest of attention's rows (q, k,
// v, heads), the experts' (input and output of each chosen one, gate and up) and a dense layer's;
// and one row of logits for each sequence that chooses a token, at most one for 64 tokens.
uint64_t workspace_of(const ModelSpec& spec) {
  constexpr int64_t kTokensALogitsRow = 64;
  const int64_t attention = 2 * int64_t{spec.head_dim} * (spec.n_heads + spec.n_kv_heads);
  const MoeSpec& moe = spec.moe;
  const int64_t experts = int64_t{2} * moe.top_k * (spec.hidden_dim + int64_t{moe.expert_dim}) +
                          moe.n_experts + 2 * int64_t{moe.shared_dim} + spec.hidden_dim;
  const int64_t dense = int64_t{2} * spec.ffn_dim;
  const int64_t numbers = 3 * spec.hidden_dim + std::max({attention, experts, dense});
  const int64_t logits = spec.vocab_size * (kChunkTokens / kTokensALogitsRow);
  return static_cast<uint64_t>(numbers * kChunkTokens + logits) * sizeof(float);
}

uint64_t kv_bytes_a_token(const ModelSpec& spec, KvFormat format) {
  const KvShape shape = {.n_layers = spec.n_layers(),
                         .n_kv_heads = spec.n_kv_heads,
                         .head_dim = spec.head_dim,
                         .format = format};
  return shape.page_bytes() / static_cast<uint64_t>(kPageTokens);
}

void append_layer(const ModelSpec& spec, const BankSum* bank, std::vector<BankDemand>& layers) {
  BankDemand layer;
  if (bank != nullptr) {
    layer = {.n_experts = spec.moe.n_experts,
             .top_k = spec.moe.top_k,
             .expert_bytes = bank->largest_bytes,
             .expert_params = bank->largest_params,
             .format = bank->formats.largest()};
  }
  if (!layers.empty()) {
    BankDemand& last = layers.back();
    layer.n_layers = last.n_layers;
    if (layer == last) {
      ++last.n_layers;
      return;
    }
    layer.n_layers = 1;
  }
  layers.push_back(std::move(layer));
}

}  // namespace

Result<ModelDemands> demands_of(const Checkpoint& checkpoint, KvFormat kv_format) {
  const ModelSpec& spec = checkpoint.spec;
  ModelDemands demands = {.name = checkpoint.name,
                          .context_length = spec.context_length,
                          .kv_bytes_a_token = kv_bytes_a_token(spec, kv_format),
                          .kv_format = kv_format == KvFormat::kF32 ? "f32" : "bf16",
                          .workspace_bytes = workspace_of(spec),
                          .chunk_tokens = kChunkTokens};
  std::map<int, BankSum> banks;
  FormatShares dense;
  PENSTOCK_TRY(for_each_needed(spec, [&](const NeededTensor& needed) -> Result<void> {
    const auto found = checkpoint.tensors.find(canonical_name(needed));
    if (found == checkpoint.tensors.end()) {
      return fail(ErrorKind::kNotFound, "tensor {} is missing", canonical_name(needed));
    }
    const StoredTensor& tensor = found->second;
    if (is_of_expert(needed)) {
      banks[needed.layer].add(needed.expert, tensor);
    } else if (needed.part == TensorPart::kEmbed && !spec.tied_head) {
      demands.embed_bytes = stored_bytes(tensor);
    } else {
      demands.dense_bytes += stored_bytes(tensor);
      demands.dense_params += n_weights(tensor);
      dense.add(tensor);
    }
    return {};
  }));
  demands.dense_format = dense.largest();
  for (int i = 0; i < spec.n_layers(); ++i) {
    const auto bank = banks.find(i);
    append_layer(spec, bank == banks.end() ? nullptr : &bank->second, demands.layers);
  }
  return demands;
}

}  // namespace penstock
