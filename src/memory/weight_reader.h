// Brings parts of files into memory as fast as they can be had: what the page cache holds is copied
// by all workers, the rest comes straight from the disk, many reads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "cpu/pool.h"
#include "os/direct_io.h"

namespace penstock {

struct FileRun {
  uint64_t begin = 0;  // bytes of the file
  uint64_t end = 0;

  bool operator==(const FileRun&) const = default;
};

// What is wanted of a file.
struct FileParts {
  std::filesystem::path path;
  std::vector<FileRun> runs;  // in order, apart from each other
  // Byte `first` + i of the file goes to memory[i]. Both begin on multiples of kDirectAlignment,
  // and memory reaches as far as direct reads of the last run do (direct_range_around).
  std::span<std::byte> memory;
  uint64_t first = 0;
};

// Where the bytes came from.
struct ReadCounts {
  uint64_t cached_bytes = 0;
  uint64_t disk_bytes = 0;  // what direct reads had to add around the wanted ones not counted

  bool operator==(const ReadCounts&) const = default;
};

// Reads all of it, straight to where it stays: nothing is staged. Of `memory`, bytes outside the
// runs but in a block of the disk with some of theirs are written too. Workers are the pool's, or
// the caller alone where it is null. Fails, with the file's name, where a file is not there, ends
// early or cannot be read; then memory holds anything.
Result<ReadCounts> read_parts(std::span<const FileParts> files, ReadQueue& queue, Pool* pool,
                              const ProgressFn& progress);

}  // namespace penstock
