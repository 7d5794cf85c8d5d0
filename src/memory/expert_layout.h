// Where each routed expert is in the checkpoint's files, and how it lies in a slot once it is read.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "memory/layer_set.h"
#include "memory/weight_reader.h"
#include "os/direct_io.h"
#include "tensor/format.h"

namespace penstock {

struct ExpertId {
  uint16_t layer = 0;
  uint16_t index = 0;  // within the layer

  auto operator<=>(const ExpertId&) const = default;
};

struct ExpertMatrices {
  MatrixView gate, up, down;
};

// Whether a name of the TensorTable is a routed expert's: "layers.3.experts.17.up".
bool is_expert_tensor(std::string_view name);

class ExpertLayout {
 public:
  // A run of a file that is read at once, and where in the slot it goes. Both are aligned as direct
  // reads have to be.
  struct Part {
    uint32_t file = 0;
    uint64_t offset = 0;
    size_t bytes = 0;
    size_t at = 0;
    FileRun wanted = {};  // of these bytes; a pack's whole, for their checksum

    bool operator==(const Part&) const = default;
  };

  // Of some layers of a model, whose experts are all there; layers without experts have none.
  static Result<ExpertLayout> make(const Checkpoint& checkpoint, const LayerSet& layers);
  // Of all layers.
  static Result<ExpertLayout> make(const Checkpoint& checkpoint);

  int n_layers() const { return static_cast<int>(layers_.size()); }  // of the model
  int64_t n_experts() const { return n_experts_; }                   // of all layers
  int n_experts(int layer) const;
  // What an expert needs, and what any needs at most; multiples of kDirectAlignment.
  size_t expert_bytes(ExpertId id) const;
  size_t slot_bytes() const { return slot_bytes_; }
  // The bytes of all experts' weights, without what is read around them.
  uint64_t weight_bytes() const { return weight_bytes_; }

  std::span<const Part> parts(ExpertId id) const { return expert(id).parts; }
  // Whether its bytes can be compared with a checksum: those of a pack.
  bool is_verifiable(ExpertId id) const { return expert(id).region.has_value(); }
  ExpertMatrices matrices(ExpertId id, std::span<const std::byte> slot) const;
  // Compares what was read of a pack with its checksum; nothing where there is none.
  Result<void> verify(ExpertId id, std::span<const std::byte> slot) const;

 private:
  struct Expert {
    std::array<StoredTensor, 3> tensors;  // gate, up, down
    std::vector<Part> parts;              // ascending in file and offset
    std::optional<Region> region = {};    // of a pack: what its one part reads
  };

  void place(Expert& expert);
  const Expert& expert(ExpertId id) const { return layers_[id.layer][id.index]; }

  std::vector<std::vector<Expert>> layers_;
  int64_t n_experts_ = 0;
  size_t slot_bytes_ = 0;
  uint64_t weight_bytes_ = 0;
  std::vector<std::filesystem::path> files_;
};

}  // namespace penstock
