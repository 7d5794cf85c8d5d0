#include "memory/weight_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "os/file.h"

namespace penstock {
namespace {

// What is asked of the page cache at a time, and then of the disk: a read long enough for any disk.
constexpr uint64_t kBlockBytes = 4 * kMiB;
static_assert(kBlockBytes % kDirectAlignment == 0);
// Copied between two looks at the disk: so little that its queue does not run dry, and often enough
// for progress.
constexpr uint64_t kBytesAtOnce = 16 * kBlockBytes;

// Part of a run that lies in one block of the file.
struct Block {
  size_t of_run = 0;
  FileRun part = {};
  bool is_cached = false;
  Result<void> copied = {};

  uint64_t bytes() const { return part.end - part.begin; }
};

// A file as a cached block is read, as it is asked what is cached, and as the disk is read.
struct SourceFile {
  File file;
  Mapping mapping;
  DirectFile direct;

  static Result<SourceFile> open(const std::filesystem::path& path) {
    PENSTOCK_ASSIGN(File file, File::open(path));
    PENSTOCK_ASSIGN(Mapping mapping, Mapping::open(path));
    PENSTOCK_ASSIGN(DirectFile direct, DirectFile::open(path));
    return SourceFile{std::move(file), std::move(mapping), std::move(direct)};
  }
};

class RunReader {
 public:
  RunReader(std::span<const WantedRun> runs, ReadQueue& queue, Pool* pool, const ReadHooks& hooks)
      : runs_(runs), queue_(queue), pool_(pool), hooks_(hooks) {}

  Result<ReadCounts> read(std::span<const std::filesystem::path> paths) {
    PENSTOCK_TRY(open_files(paths));
    cut_into_blocks();
    for (size_t begin = 0; begin < blocks_.size();) {
      size_t end = begin;
      for (uint64_t bytes = 0; end < blocks_.size() && bytes < kBytesAtOnce; ++end) {
        bytes += blocks_[end].bytes();
      }
      const auto some = std::span(blocks_).subspan(begin, end - begin);
      PENSTOCK_TRY(copy_cached(some));
      request_others(some);
      queue_.poll();
      report();
      begin = end;
    }
    PENSTOCK_TRY(wait_for_disk());
    return counts_;
  }

 private:
  // A batch of direct reads, and the block that each of its requests brings.
  struct Pending {
    ReadBatch batch;
    std::vector<const Block*> blocks;
  };

  Result<void> open_files(std::span<const std::filesystem::path> paths) {
    for (const WantedRun& wanted : runs_) {
      const std::filesystem::path& path = paths[wanted.file];
      auto found = files_.find(wanted.file);
      if (found == files_.end()) {
        PENSTOCK_ASSIGN(SourceFile source, SourceFile::open(path));
        found = files_.emplace(wanted.file, std::move(source)).first;
      }
      if (const uint64_t size = found->second.direct.size(); wanted.run.end > size) {
        return fail(ErrorKind::kInvalidData,
                    "{} has {} bytes, but its tensors end at {}: it changed while loading",
                    path.string(), size, wanted.run.end);
      }
    }
    return {};
  }

  void cut_into_blocks() {
    missing_.reserve(runs_.size());
    for (size_t i = 0; i < runs_.size(); ++i) {
      const auto& [begin, all_end] = runs_[i].run;
      for (uint64_t at = begin; at < all_end;) {
        const uint64_t end = std::min(all_end, round_up(at + 1, kBlockBytes));
        blocks_.push_back({.of_run = i, .part = {at, end}});
        at = end;
      }
      total_ += all_end - begin;
      missing_.push_back(all_end - begin);
    }
  }

  // What the cache loses meanwhile is read through it: slower, but right.
  Result<void> copy_cached(std::span<Block> blocks) {
    const auto copy = [&](Block& block) {
      const SourceFile& source = file_of(block);
      block.is_cached = source.mapping.is_cached(block.part.begin, block.bytes());
      if (!block.is_cached) return;
      block.copied = source.file.read_exact(block.part.begin, memory_of(block, block.part));
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
      if (!block.is_cached) continue;
      counts_.cached_bytes += block.bytes();
      landed(block);
    }
    return {};
  }

  void request_others(std::span<const Block> blocks) {
    std::vector<ReadRequest> requests;
    std::vector<const Block*> requested;
    for (const Block& block : blocks) {
      if (block.is_cached) continue;
      const DirectRange range = direct_range_around(block.part.begin, block.bytes());
      requests.push_back({.file = &file_of(block).direct,
                          .offset = range.offset,
                          .out = memory_of(block, {range.offset, range.offset + range.bytes})});
      requested.push_back(&block);
    }
    if (!requests.empty()) pending_.push_back({queue_.submit(requests), std::move(requested)});
  }

  Result<void> wait_for_disk() {
    for (Pending& pending : pending_) {
      while (const auto i = pending.batch.wait_next()) {
        counts_.disk_bytes += pending.blocks[*i]->bytes();
        landed(*pending.blocks[*i]);
        report();
      }
      PENSTOCK_TRY(pending.batch.wait());
    }
    return {};
  }

  void landed(const Block& block) {
    missing_[block.of_run] -= block.bytes();
    if (missing_[block.of_run] == 0 && hooks_.done) hooks_.done(block.of_run);
  }

  const SourceFile& file_of(const Block& block) const {
    return files_.at(runs_[block.of_run].file);
  }

  std::span<std::byte> memory_of(const Block& block, FileRun part) const {
    const WantedRun& wanted = runs_[block.of_run];
    const uint64_t first = wanted.run.begin / kDirectAlignment * kDirectAlignment;
    return wanted.memory.subspan(part.begin - first, part.end - part.begin);
  }

  void report() const {
    if (!hooks_.progress) return;
    hooks_.progress({.stage = "reading weights",
                     .done = counts_.cached_bytes + counts_.disk_bytes,
                     .total = total_});
  }

  std::span<const WantedRun> runs_;
  ReadQueue& queue_;
  Pool* pool_;
  const ReadHooks& hooks_;
  std::map<uint32_t, SourceFile> files_;
  std::vector<Block> blocks_;
  std::vector<uint64_t> missing_;  // bytes of each run
  std::vector<Pending> pending_;   // gone before the files
  ReadCounts counts_;
  uint64_t total_ = 0;  // bytes
};

}  // namespace

std::vector<FileRun> without_shared_blocks(std::span<const FileRun> runs) {
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

Result<ReadCounts> read_runs(std::span<const std::filesystem::path> files,
                             std::span<const WantedRun> runs, ReadQueue& queue, Pool* pool,
                             const ReadHooks& hooks) {
  return RunReader(runs, queue, pool, hooks).read(files);
}

}  // namespace penstock
