// Packs: Penstock's own folder of a model, in which each expert is one run of bytes and everything
// has a checksum. docs/pack.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/pack_folder.h"
#include "checkpoint/upcycle.h"
#include "tensor/format.h"

namespace penstock {

struct PackOptions {
  std::filesystem::path output = {};
  IfExists if_exists = IfExists::kRefuse;
  std::optional<Format> experts_format = {};  // of routed experts; nullopt: as they are stored
  std::optional<UpcycleOptions> upcycle = {};
};

struct PackSummary {
  std::filesystem::path folder = {};
  uint64_t bytes = 0;  // of weights
  size_t n_tensors = 0;
  size_t n_experts = 0;                             // of all layers
  std::vector<std::filesystem::path> removed = {};  // what killed writers had left
};

// Writes the pack to a temporary name, forces it to the disk and renames it; on an error or a stop
// (kCancelled) nothing stays. Memory: kPackStagingBytes (checkpoint/pack_writer.h).
Result<PackSummary> write_pack(const Checkpoint& source, const PackOptions& options,
                               const ProgressFn& progress, std::stop_token stop);

// Checks the index, its own checksum, those of the small files, and the size of every file.
Result<Checkpoint> open_pack(const std::filesystem::path& folder);

// Compares a region's checksum with that of `bytes`, which were read from it. The error names
// `file`, the region, and both sums.
Result<void> verify_region(const std::filesystem::path& file, const Region& region,
                           std::span<const std::byte> bytes);

// Reads every region and compares its checksum. Errors as those of
// verify_region. Safe beside readers.
Result<void> verify_pack(const Checkpoint& pack, const ProgressFn& progress,
                         const std::stop_token& stop);

}  // namespace penstock
