// Brings a checkpoint's tensors into memory, in their stored format, and hands out views of them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cpu/pool.h"
#include "memory/weight_reader.h"
#include "os/file.h"
#include "os/memory.h"
#include "tensor/format.h"

namespace penstock {

struct WeightOptions {
  // The files are mapped: the page cache is the memory, and it can be given back. Otherwise the
  // weights are read into anonymous memory in huge OS pages, which is fastest to compute from; all
  // but routed experts, which are somebody else's then (bank_store.h, expert_cache.h).
  bool map_files = false;
  Pool* pool = nullptr;  // whose workers read and interleave; null: the caller alone reads
  // Where weights are read, and there is a pool: brings the matrices whose format and shape allow
  // it into Layout::kInterleaved.
  bool interleave = false;
  // What is read goes to these NUMA nodes (os/numa.h); empty where there is nothing to choose.
  std::span<const int> nodes = {};
  ProgressFn progress = {};
};

// How weights that are read came.
struct WeightLoading {
  ReadCounts counts = {};
  double seconds = 0.0;      // of reading alone
  bool is_verified = false;  // against a pack's checksums

  // One after the other: what one of them did not verify is not.
  WeightLoading& operator+=(const WeightLoading& other) {
    counts += other.counts;
    seconds += other.seconds;
    is_verified &= other.is_verified;
    return *this;
  }
};

// Immutable once loaded, so thread-safe. Views live as long as the store. Peak memory is the
// weights alone (a pack's with their padding), and 16 rows of a matrix for each worker that
// interleaves: reads go straight to where the bytes stay.
class WeightStore {
 public:
  // Weights of a pack that are read are compared with their checksums before anything else is done
  // with them; one that differs is an error that names it.
  static Result<WeightStore> load(const Checkpoint& checkpoint, const WeightOptions& options);

  // The matrix called `name` (checkpoint/checkpoint.h lists the names); a missing one, also an
  // expert's that is somebody else's, is an error that names it.
  Result<MatrixView> matrix(std::string_view name) const;
  // A one-row tensor of `size` numbers, widened to float32.
  Result<std::vector<float>> vector(std::string_view name, int64_t size) const;

  uint64_t bytes() const { return bytes_; }                  // of its weights
  const WeightLoading& loading() const { return loading_; }  // nothing where they are mapped
  // Where those bytes are, in as few runs as they form: for measurements.
  std::vector<std::span<const std::byte>> runs() const;
  bool is_interleaved() const { return !interleaved_.empty(); }  // some of them
  // What was not done as asked, for the caller's log; or empty.
  const std::string& note() const { return note_; }

 private:
  WeightStore() = default;
  Result<void> map_files(const Checkpoint& checkpoint);
  using FileBytes = std::vector<std::span<std::byte>>;  // by the checkpoint's files
  Result<FileBytes> read_files(const Checkpoint& checkpoint, const WeightOptions& options);
  Result<void> verify(const Checkpoint& checkpoint, const FileBytes& files,
                      const WeightOptions& options);
  void add_note(std::string_view note);
  void interleave_all(const FileBytes& files, const WeightOptions& options);
  MatrixView as_stored(const StoredTensor& tensor) const;

  uint64_t bytes_ = 0;
  WeightLoading loading_;
  std::string note_;
  TensorTable tensors_;
  std::vector<std::span<const std::byte>> files_;  // each file's bytes, whether mapped or read
  std::vector<Mapping> mappings_;
  std::vector<AnonymousMemory> memory_;
  std::set<std::string, std::less<>> interleaved_;
};

}  // namespace penstock
