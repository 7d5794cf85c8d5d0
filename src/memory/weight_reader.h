// Brings parts of files into memory as fast as they can be had: what the page cache holds is copied
// by all workers, the rest comes straight from the disk, many reads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "cpu/pool.h"
#include "os/direct_io.h"

namespace penstock {

// Bytes [begin, end) of a file.
struct FileRun {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const FileRun&) const = default;
};

// A run of bytes that is wanted, and where it goes.
struct WantedRun {
  uint32_t file = 0;  // of those that are read
  FileRun run = {};   // not empty
  // As direct reads need it: of direct_range_around(run.begin, run.end - run.begin), so that byte
  // run.begin lands `skip` bytes behind its first. What lies around the run is written too.
  std::span<std::byte> memory = {};
};

// Runs in ascending order as few that no two share a block of the disk, for those that go to one
// stretch of memory in the order of the file: a direct read of one would write over another.
std::vector<FileRun> without_shared_blocks(std::span<const FileRun> runs);

// Where the bytes came from.
struct ReadCounts {
  uint64_t cached_bytes = 0;
  uint64_t disk_bytes = 0;  // what direct reads had to add around the wanted ones not counted

  ReadCounts& operator+=(const ReadCounts& other) {
    cached_bytes += other.cached_bytes;
    disk_bytes += other.disk_bytes;
    return *this;
  }
  bool operator==(const ReadCounts&) const = default;
};

struct ReadHooks {
  ProgressFn progress = {};
  // Told by the calling thread when all bytes of a run are there, each run once, in any order.
  std::function<void(size_t run)> done = {};
};

// Reads all of it, straight to where it stays: nothing is staged. Workers are the pool's, or the
// caller alone where it is null. Fails, with the file's name, where a file is not there, ends early
// or cannot be read; then memory holds anything.
Result<ReadCounts> read_runs(std::span<const std::filesystem::path> files,
                             std::span<const WantedRun> runs, ReadQueue& queue, Pool* pool,
                             const ReadHooks& hooks);

}  // namespace penstock
