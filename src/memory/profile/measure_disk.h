// What a folder's disk gives to direct reads like those of experts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "memory/plan/machine.h"

namespace penstock {

struct DiskEffort {
  uint64_t file_bytes = 0;   // written, then read; less where the disk has little room
  double write_seconds = 0;  // at most: a slow disk gets a smaller file
  double read_seconds = 0;   // of each kind of read
};
inline constexpr DiskEffort kFullDiskEffort = {
    .file_bytes = uint64_t{1} << 30, .write_seconds = 5, .read_seconds = 1.5};
inline constexpr DiskEffort kQuickDiskEffort = {
    .file_bytes = uint64_t{256} << 20, .write_seconds = 1.5, .read_seconds = 0.3};

struct DiskMeasurement {
  MachineDisk rates = {};
  uint64_t file_bytes = 0;
  bool is_direct = false;    // or through the page cache, where the file system refuses O_DIRECT
  std::string backend = {};  // "io_uring" or "threads"
};

// Progress counts bytes. The file has no name, so nothing of it stays, whatever ends the process.
// What is read:
//   in order      1 MiB, many in flight
//   experts       2.5 MiB at random places, a layer's 8 at once, all waited for as decode waits
//   small         4 KiB at random places, many in flight
Result<DiskMeasurement> measure_disk(const std::filesystem::path& folder, const DiskEffort& effort,
                                     const ProgressFn& progress);

}  // namespace penstock
