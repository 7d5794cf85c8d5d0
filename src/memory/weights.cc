#include "memory/weights.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "checkpoint/pack.h"
#include "memory/expert_layout.h"
#include "memory/stored_matrix.h"
#include "memory/weight_jobs.h"
#include "memory/weight_reader.h"
#include "os/numa.h"
#include "tensor/codec.h"
#include "tensor/interleave.h"

namespace penstock {
namespace {

// The parts of each file that hold weights, neighbours merged, in order.
std::map<uint32_t, std::vector<FileRun>> used_runs(const TensorTable& tensors) {
  std::map<uint32_t, std::vector<FileRun>> runs;
  for (const auto& [name, tensor] : tensors) {
    for (const Extent& extent : {tensor.data, tensor.scales, tensor.zeros, tensor.groups}) {
      if (extent.bytes > 0)
        runs[extent.file].push_back({extent.offset, extent.offset + extent.bytes});
    }
  }
  for (auto& [file, of_file] : runs) {
    std::ranges::sort(of_file, {}, &FileRun::begin);
    std::vector<FileRun> merged;
    for (const FileRun& run : of_file) {
      if (!merged.empty() && run.begin <= merged.back().end) {
        merged.back().end = std::max(merged.back().end, run.end);
      } else {
        merged.push_back(run);
      }
    }
    of_file = std::move(merged);
  }
  return runs;
}

uint64_t total_bytes(const std::map<uint32_t, std::vector<FileRun>>& runs) {
  uint64_t bytes = 0;
  for (const auto& [file, of_file] : runs) {
    for (const FileRun& run : of_file) bytes += run.end - run.begin;
  }
  return bytes;
}

// Of a pack's regions, those with any of the tensors.
std::vector<const Region*> used_regions(const Checkpoint& checkpoint, const TensorTable& tensors) {
  const auto runs = used_runs(tensors);
  std::vector<const Region*> used;
  for (const Region& region : checkpoint.regions) {
    const auto of_file = runs.find(region.extent.file);
    if (of_file == runs.end()) continue;
    const auto& [file, begin, bytes] = region.extent;
    const auto run = std::ranges::upper_bound(of_file->second, begin, {}, &FileRun::end);
    if (run != of_file->second.end() && run->begin < begin + bytes) used.push_back(&region);
  }
  return used;
}

// What is read of each file: the weights, and of a pack their regions whole, for their checksums.
std::map<uint32_t, std::vector<FileRun>> runs_to_read(const Checkpoint& checkpoint,
                                                      const TensorTable& tensors) {
  if (checkpoint.regions.empty()) return used_runs(tensors);
  std::map<uint32_t, std::vector<FileRun>> runs;
  for (const Region* region : used_regions(checkpoint, tensors)) {
    const auto& [file, begin, bytes] = region->extent;
    runs[file].push_back({begin, begin + bytes});
  }
  return runs;
}

TensorTable without_experts(const TensorTable& tensors) {
  TensorTable others;
  for (const auto& entry : tensors) {
    if (!is_expert_tensor(entry.first)) others.insert(entry);
  }
  return others;
}

}  // namespace

Result<WeightStore> WeightStore::load(const Checkpoint& checkpoint, const WeightOptions& options) {
  WeightStore store;
  store.tensors_ = options.map_files ? checkpoint.tensors : without_experts(checkpoint.tensors);
  store.bytes_ = total_bytes(used_runs(store.tensors_));
  if (options.map_files) {
    PENSTOCK_TRY(store.map_files(checkpoint));
  } else {
    PENSTOCK_ASSIGN(const FileBytes read, store.read_files(checkpoint, options));
    PENSTOCK_TRY(store.verify(checkpoint, read, options));
    if (options.interleave && options.pool != nullptr) store.interleave_all(read, options);
  }
  return store;
}

Result<void> WeightStore::map_files(const Checkpoint& checkpoint) {
  const auto runs = used_runs(tensors_);
  files_.resize(checkpoint.files.size());
  for (const auto& [index, of_file] : runs) {
    const auto& path = checkpoint.files[index];
    PENSTOCK_ASSIGN(auto mapping, Mapping::open(path));
    // Opened earlier and checked then; a file that shrank since would be a SIGBUS in the middle of
    // an answer.
    if (mapping.bytes().size() < of_file.back().end) {
      return fail(ErrorKind::kInvalidData,
                  "{} has {} bytes, but its tensors end at {}: it changed while loading",
                  path.string(), mapping.bytes().size(), of_file.back().end);
    }
    files_[index] = mapping.bytes();
    mappings_.push_back(std::move(mapping));
  }
  return {};
}

// Each file gets an address range of its own size, of which only the runs that hold weights are
// ever touched.
Result<WeightStore::FileBytes> WeightStore::read_files(const Checkpoint& checkpoint,
                                                       const WeightOptions& options) {
  files_.resize(checkpoint.files.size());
  FileBytes read(checkpoint.files.size());
  std::vector<WantedRun> wanted;
  for (auto& [index, of_file] : runs_to_read(checkpoint, tensors_)) {
    const uint64_t end = round_up(of_file.back().end, kDirectAlignment);
    PENSTOCK_ASSIGN(auto memory, AnonymousMemory::reserve(end, OsPages::kHuge));
    if (const auto placed = place_on_nodes(memory.bytes(), options.nodes); !placed) {
      add_note(placed.error().message);  // slower, but right
    }
    files_[index] = read[index] = memory.bytes();
    for (const FileRun& run : without_shared_blocks(of_file)) {
      const DirectRange range = direct_range_around(run.begin, run.end - run.begin);
      wanted.push_back({index, run, memory.bytes().subspan(range.offset, range.bytes)});
    }
    memory_.push_back(std::move(memory));
  }
  PENSTOCK_ASSIGN(const auto queue, ReadQueue::make());
  if (!queue->note().empty()) add_note(queue->note());
  const auto began = std::chrono::steady_clock::now();
  PENSTOCK_ASSIGN(loading_.counts, read_runs(checkpoint.files, wanted, *queue, options.pool,
                                             {.progress = options.progress}));
  loading_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return read;
}

Result<void> WeightStore::verify(const Checkpoint& checkpoint, const FileBytes& files,
                                 const WeightOptions& options) {
  const std::vector<const Region*> regions = used_regions(checkpoint, tensors_);
  if (regions.empty()) return {};
  std::vector<uint64_t> sizes;
  for (const Region* region : regions) sizes.push_back(region->extent.bytes);
  std::vector<Result<void>> verified(regions.size());
  run_weight_jobs(options.pool, options.progress, "verifying weights", sizes, [&](size_t i) {
    const auto& [file, offset, bytes] = regions[i]->extent;
    verified[i] =
        verify_region(checkpoint.files[file], *regions[i], files[file].subspan(offset, bytes));
  });
  for (const Result<void>& region : verified) PENSTOCK_TRY(region);
  loading_.is_verified = true;
  return {};
}

void WeightStore::add_note(std::string_view note) {
  if (!note_.empty()) note_ += "; ";
  note_ += note;
}

// Rows of an embedding that is no head as well are only looked up. Readers refuse tensors that
// overlap, so no byte is moved twice.
void WeightStore::interleave_all(const FileBytes& files, const WeightOptions& options) {
  struct Job {
    MatrixView matrix;
    std::span<std::byte> data, scales;
  };
  const bool has_head = tensors_.contains("head");
  std::vector<Job> jobs;
  std::vector<uint64_t> sizes;
  for (const auto& [name, tensor] : tensors_) {
    if (has_head && name == "embed") continue;
    const MatrixView by_rows = as_stored(tensor);
    if (!has_interleaved_shape(by_rows)) continue;
    const auto writable = [&](const Extent& extent) {
      return files[extent.file].subspan(extent.offset, extent.bytes);
    };
    jobs.push_back({by_rows, writable(tensor.data), writable(tensor.scales)});
    interleaved_.insert(name);
    sizes.push_back(tensor.data.bytes + tensor.scales.bytes);
  }
  run_weight_jobs(options.pool, options.progress, "interleaving weights", sizes,
                  [&](size_t i) { interleave(jobs[i].matrix, jobs[i].data, jobs[i].scales); });
}

std::vector<std::span<const std::byte>> WeightStore::runs() const {
  std::vector<std::span<const std::byte>> all;
  for (const auto& [index, of_file] : used_runs(tensors_)) {
    for (const FileRun& run : of_file) {
      all.push_back(files_[index].subspan(run.begin, run.end - run.begin));
    }
  }
  return all;
}

Result<MatrixView> WeightStore::matrix(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    return fail(ErrorKind::kNotFound, "the checkpoint has no tensor \"{}\"", name);
  MatrixView matrix = as_stored(found->second);
  if (interleaved_.contains(name)) matrix.layout = Layout::kInterleaved;
  return matrix;
}

MatrixView WeightStore::as_stored(const StoredTensor& tensor) const {
  return matrix_of(tensor, [&](const Extent& extent) {
    return files_[extent.file].subspan(extent.offset, extent.bytes);
  });
}

Result<std::vector<float>> WeightStore::vector(std::string_view name, int64_t size) const {
  PENSTOCK_ASSIGN(const MatrixView stored, matrix(name));
  if (stored.rows != 1 || stored.cols != size) {
    return fail(ErrorKind::kInvalidData,
                "tensor \"{}\" has shape [{}, {}], expected a vector of {}", name, stored.rows,
                stored.cols, size);
  }
  std::vector<float> values(static_cast<size_t>(size));
  decode_row(stored, 0, values);
  return values;
}

}  // namespace penstock
