// What each tensor of a pack is made of: which source tensor, in what order of blocks, in which
// format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/pack_index.h"
#include "tensor/format.h"

namespace penstock {

// A permutation of equal blocks of rows or columns: block i of the result is block order[i] of the
// source.
using BlockOrder = std::vector<uint32_t>;

struct TensorRecipe {
  std::string name = {};     // in the pack
  StoredTensor source = {};  // extents are in the source's files
  Format format =
      Format::kF32;  // where it differs from source.format, rows are decoded and encoded
  std::shared_ptr<const BlockOrder> row_order = nullptr;  // null: as they are
  std::shared_ptr<const BlockOrder> col_order = nullptr;
  std::optional<uint64_t> noise_seed = {};  // a router made of noise: source has only its shape

  bool encodes() const { return format != source.format; }
};

// "layers.3.experts.17.gate"
struct ExpertTensorName {
  int layer = 0;
  int expert = 0;
  std::string_view part = {};
};
std::optional<ExpertTensorName> parse_expert_name(std::string_view name);

// Whether the extents of `tensor` are as long as its shape and format need; the error says what was
// found and expected. Looks at no file.
Result<void> check_sizes(const StoredTensor& tensor);

// A region of the pack and how to make it, tensor by tensor (recipes[i] makes region.tensors[i]).
struct RegionPlan {
  PackRegion region = {};  // xxh3, and the scale of tensors encoded to NVFP4, are not known yet
  std::vector<TensorRecipe> recipes = {};
};

struct PackPlan {
  std::vector<PackFile> files = {};
  std::vector<RegionPlan> regions = {};  // in file order
  uint64_t bytes() const;
};

// Gives every recipe its place: dense tensors in one file, layer by layer; each expert's gate, up
// and down as one region of the other.
Result<PackPlan> lay_out(std::vector<TensorRecipe> recipes);

}  // namespace penstock
