// Which tensors a model of a given spec is made of: their canonical names and shapes, and what each
// file format calls them. The table of docs/models.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_spec.h"

namespace penstock {

enum class TensorPart : uint8_t {
  kEmbed,
  kFinalNorm,
  kHead,
  kAttnNorm,
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kRouter,
  kRouterBias,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kExpertGate,
  kExpertUp,
  kExpertDown,
};

struct NeededTensor {
  TensorPart part = TensorPart::kEmbed;
  int layer = -1;   // -1: not in a layer
  int expert = -1;  // -1: not of a routed expert
  int64_t rows = 1;
  int64_t cols = 1;

  // Norms and biases: one row, stored as plain numbers.
  bool is_vector() const;
};

// "layers.3.experts.7.gate"
std::string canonical_name(const NeededTensor& tensor);

// Calls `visit` for each tensor until it fails. Nothing is listed up front: a spec from outside may
// claim billions.
Result<void> for_each_needed(const ModelSpec& spec,
                             const std::function<Result<void>(const NeededTensor&)>& visit);

// `stored` has the shape, and bytes as many as its format makes of it; a vector is of plain
// numbers. Errors name the tensor, what was found and what was expected.
Result<void> check_tensor(const NeededTensor& needed, const StoredTensor& stored);

// Every tensor the spec needs is in the table and passes check_tensor.
Result<void> check_tensors(const ModelSpec& spec, const TensorTable& tensors);

// The Hugging Face name without its last part: "model.layers.3.mlp.experts.7.gate_proj", and that
// part: "weight", "bias".
std::string hf_module(Family family, const NeededTensor& tensor);
std::string_view hf_leaf(TensorPart part);

// "blk.3.attn_q.weight". Experts of a layer are stacked in one tensor.
std::string gguf_name(Family family, const NeededTensor& tensor);

}  // namespace penstock
