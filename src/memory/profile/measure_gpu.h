// What a GPU's driver page-locks, and what the link between RAM and the GPU carries.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cuda/driver.h"

namespace penstock {

struct GpuEffort {
  uint64_t copy_bytes = 0;         // in each copy of the large kind
  uint64_t most_pinned_bytes = 0;  // where the probe of page-locking stops by itself
  double seconds = 0;              // of each kind of copy
};
inline constexpr GpuEffort kFullGpuEffort = {
    .copy_bytes = uint64_t{256} << 20, .most_pinned_bytes = uint64_t{8} << 30, .seconds = 0.5};
inline constexpr GpuEffort kQuickGpuEffort = {
    .copy_bytes = uint64_t{64} << 20, .most_pinned_bytes = uint64_t{2} << 30, .seconds = 0.1};

// How much of this process's memory the driver page-locks at once. An upper bound of what a process
// gets that has memory of its own as well: the pool is the system's.
struct PinProbe {
  uint64_t pinned_bytes = 0;
  bool was_refused = false;  // more than that; else the probe stopped there by itself
};

// GB/s of copies.
struct GpuMeasurement {
  DeviceMemoryInfo vram = {};
  double to_gpu = 0;           // from page-locked RAM, copy_bytes at a time
  double to_host = 0;          // to it
  double experts_to_gpu = 0;   // from it, 2.5 MiB at a time and eight queued
  double pageable_to_gpu = 0;  // from RAM that is not page-locked
  PinProbe pins = {};
};

// All memory is given back. An error where the driver refuses what cannot be done without.
Result<GpuMeasurement> measure_gpu(Driver& driver, const GpuEffort& effort);

}  // namespace penstock
