#include "memory/weight_reader.h"

#include <algorithm>

#include "base/integers.h"
#include "base/units.h"
#include "os/file.h"

namespace penstock {
namespace {

// What is asked of the page cache at a time, and then of the disk: a read long enough for any disk.
constexpr uint64_t kBlockBytes = 4 * kMiB;
static_assert(kBlockBytes % kDirectAlignment == 0);
// Copied between two looks at the disk: so short that its queue does not run dry, and often enough
// for progress.
constexpr size_t kBlocksAtOnce = 16;

// Part of a run that lies in one block of the file.
struct Block {
  size_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool is_cached = false;
  Result<void> copied = {};
};

class PartReader {
 public:
  PartReader(std::span<const FileParts> files, ReadQueue& queue, Pool* pool,
             const ProgressFn& progress)
      : files_(files), queue_(queue), pool_(pool), progress_(progress) {}

  Result<ReadCounts> read() {
    PENSTOCK_TRY(open_files());
    cut_into_blocks();
    const std::span all(blocks_);
    for (size_t begin = 0; begin < all.size(); begin += kBlocksAtOnce) {
      const auto some = all.subspan(begin, std::min(kBlocksAtOnce, all.size() - begin));
      PENSTOCK_TRY(copy_cached(some));
      request_others(some);
      queue_.poll();
      report();
    }
    PENSTOCK_TRY(wait_for_disk());
    return counts_;
  }

 private:
  // A batch of direct reads, and how many wanted bytes each of its requests brings.
  struct Pending {
    ReadBatch batch;
    std::vector<uint64_t> bytes;
  };

  Result<void> open_files() {
    for (const FileParts& parts : files_) {
      PENSTOCK_ASSIGN(File cached, File::open(parts.path));
      PENSTOCK_ASSIGN(Mapping mapping, Mapping::open(parts.path));
      PENSTOCK_ASSIGN(DirectFile direct, DirectFile::open(parts.path));
      if (!parts.runs.empty() && parts.runs.back().end > direct.size()) {
        return fail(ErrorKind::kInvalidData,
                    "{} has {} bytes, but its tensors end at {}: it changed while loading",
                    parts.path.string(), direct.size(), parts.runs.back().end);
      }
      cached_.push_back(std::move(cached));
      mappings_.push_back(std::move(mapping));
      direct_.push_back(std::move(direct));
    }
    return {};
  }

  void cut_into_blocks() {
    for (size_t file = 0; file < files_.size(); ++file) {
      for (const FileRun& run : joined(files_[file].runs)) {
        for (uint64_t at = run.begin; at < run.end;) {
          const uint64_t end = std::min(run.end, round_up(at + 1, kBlockBytes));
          blocks_.push_back({.file = file, .begin = at, .end = end});
          total_ += end - at;
          at = end;
        }
      }
    }
  }

  // Runs that share a block of the disk are one, so that no direct read writes where another or a
  // copy does.
  static std::vector<FileRun> joined(std::span<const FileRun> runs) {
    std::vector<FileRun> all;
    for (const FileRun& run : runs) {
      if (!all.empty() && run.begin < round_up(all.back().end, kDirectAlignment)) {
        all.back().end = run.end;
      } else {
        all.push_back(run);
      }
    }
    return all;
  }

  // What the cache loses meanwhile is read through it: slower, but right.
  Result<void> copy_cached(std::span<Block> blocks) {
    const auto copy = [&](Block& block) {
      const uint64_t n = block.end - block.begin;
      block.is_cached = mappings_[block.file].is_cached(block.begin, n);
      if (!block.is_cached) return;
      block.copied =
          cached_[block.file].read_exact(block.begin, memory_of(block, block.begin, block.end));
    };
    if (pool_ == nullptr) {
      std::ranges::for_each(blocks, copy);
    } else {
      pool_->parallel_for(std::ssize(blocks), 1, [&](Range range, int) {
        for (int64_t i = range.begin; i < range.end; ++i) copy(blocks[static_cast<size_t>(i)]);
      });
    }
    for (const Block& block : blocks) {
      PENSTOCK_TRY(block.copied);
      if (block.is_cached) counts_.cached_bytes += block.end - block.begin;
    }
    return {};
  }

  void request_others(std::span<const Block> blocks) {
    std::vector<ReadRequest> requests;
    std::vector<uint64_t> bytes;
    for (const Block& block : blocks) {
      if (block.is_cached) continue;
      const DirectRange range = direct_range_around(block.begin, block.end - block.begin);
      requests.push_back({.file = &direct_[block.file],
                          .offset = range.offset,
                          .out = memory_of(block, range.offset, range.offset + range.bytes)});
      bytes.push_back(block.end - block.begin);
    }
    if (!requests.empty()) pending_.push_back({queue_.submit(requests), std::move(bytes)});
  }

  Result<void> wait_for_disk() {
    for (Pending& pending : pending_) {
      while (const auto i = pending.batch.wait_next()) {
        counts_.disk_bytes += pending.bytes[*i];
        report();
      }
      PENSTOCK_TRY(pending.batch.wait());
    }
    return {};
  }

  std::span<std::byte> memory_of(const Block& block, uint64_t begin, uint64_t end) const {
    const FileParts& parts = files_[block.file];
    return parts.memory.subspan(begin - parts.first, end - begin);
  }

  void report() const {
    if (!progress_) return;
    progress_({.stage = "reading weights",
               .done = counts_.cached_bytes + counts_.disk_bytes,
               .total = total_});
  }

  std::span<const FileParts> files_;
  ReadQueue& queue_;
  Pool* pool_;
  const ProgressFn& progress_;
  // By files_: to read through the page cache, to ask what it holds, and to read past it.
  std::vector<File> cached_;
  std::vector<Mapping> mappings_;
  std::vector<DirectFile> direct_;
  std::vector<Block> blocks_;
  std::vector<Pending> pending_;  // gone before the files
  ReadCounts counts_;
  uint64_t total_ = 0;  // bytes
};

}  // namespace

Result<ReadCounts> read_parts(std::span<const FileParts> files, ReadQueue& queue, Pool* pool,
                              const ProgressFn& progress) {
  return PartReader(files, queue, pool, progress).read();
}

}  // namespace penstock
