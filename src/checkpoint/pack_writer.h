// Makes the files of a pack: tensors copied, reordered or encoded through a bounded amount of
// memory, hashed on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/pack_recipe.h"
#include "os/file.h"
#include "os/output.h"

struct XXH3_state_s;

namespace penstock {

// What writing a pack holds in memory: this for reading, as much for writing, and while a matrix is
// encoded two of its rows in float32 and its new scales. Sources that are encoded are mapped.
inline constexpr size_t kPackStagingBytes = size_t{8} << 20;

// What a file of a pack is written through: gathers small writes, hashes a region, reports progress
// and notices a stop. One thread.
class PackSink {
 public:
  // `done_before` bytes of `total` were written to other files.
  static Result<PackSink> create(const std::filesystem::path& path, uint64_t done_before,
                                 uint64_t total, const ProgressFn& progress, std::stop_token stop);
  PackSink(PackSink&&) noexcept;
  ~PackSink();

  Result<void> append(std::span<const std::byte> bytes);
  // Appends zeros up to `offset` in the file.
  Result<void> pad_to(uint64_t offset);
  uint64_t offset() const { return offset_; }

  // xxh3 of what was appended since the last call.
  Result<uint64_t> take_hash();
  // Forces everything to the disk.
  Result<void> finish();

 private:
  PackSink(OutputFile file, uint64_t done_before, uint64_t total, const ProgressFn& progress,
           std::stop_token stop);
  Result<void> flush();

  struct FreeHash {
    void operator()(XXH3_state_s* state) const;
  };

  OutputFile file_;
  std::unique_ptr<XXH3_state_s, FreeHash> hash_;
  std::vector<std::byte> gathered_;
  uint64_t offset_ = 0;
  uint64_t done_before_;
  uint64_t total_;
  const ProgressFn& progress_;
  std::stop_token stop_;
};

// Makes tensors from a source checkpoint's files. One thread.
class TensorMaker {
 public:
  static Result<TensorMaker> open(const Checkpoint& source);

  // Appends the tensor's runs to `sink` at the places that `made` has, and sets made.scale where
  // it is found while encoding.
  Result<void> make(const TensorRecipe& recipe, StoredTensor& made, PackSink& sink);

 private:
  TensorMaker() = default;
  Result<void> move(const TensorRecipe& recipe, const StoredTensor& made, PackSink& sink);
  Result<void> copy(Extent from, PackSink& sink);
  Result<void> copy_reordered(const Extent& from, int64_t n_outer, const BlockOrder& order,
                              PackSink& sink);
  Result<void> encode(const TensorRecipe& recipe, StoredTensor& made, PackSink& sink);
  Result<MatrixView> view(const StoredTensor& tensor);
  Result<std::span<const std::byte>> view(const Extent& extent);

  std::vector<File> files_;
  std::vector<std::optional<Mapping>> mappings_;  // made when a file's tensor is first encoded
  std::vector<std::byte> staging_;
};

}  // namespace penstock
