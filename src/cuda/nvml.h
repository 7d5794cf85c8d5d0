// What NVIDIA's management library says of the GPUs and of who holds their memory. It comes with
// the driver and is loaded at run time: nothing here needs CUDA, and no GPU is touched.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace penstock {

struct GpuProcess {
  int pid = 0;
  std::optional<uint64_t> vram_bytes = {};  // absent: the driver does not say (WDDM, containers)

  bool operator==(const GpuProcess&) const = default;
};

struct GpuStatus {
  std::string name = {};
  std::string link = {};  // "PCIe 4.0 x16", at its best; empty: the driver does not say
  uint64_t vram_total_bytes = 0;
  uint64_t vram_free_bytes = 0;
  std::vector<GpuProcess> processes = {};  // that compute on it

  bool operator==(const GpuStatus&) const = default;
};

struct GpuReport {
  std::string driver = {};  // its version: "570.133.20"
  std::vector<GpuStatus> gpus = {};
  std::vector<std::string> notes = {};  // what could not be asked

  bool operator==(const GpuReport&) const = default;
};

// The library's functions, with the types of its documentation. Tests fill in their own.
struct NvmlApi {
  using Status = int;    // nvmlReturn_t; 0 is success
  using Device = void*;  // nvmlDevice_t
  struct Memory {        // nvmlMemory_t
    unsigned long long total = 0, free = 0, used = 0;
  };
  struct Process {  // nvmlProcessInfo_t of _v2 and _v3
    unsigned int pid = 0;
    unsigned long long vram_bytes = 0;
    unsigned int gpu_instance = 0, compute_instance = 0;
  };

  std::function<Status()> init = {};
  std::function<Status()> shutdown = {};
  std::function<const char*(Status)> error_text = {};
  std::function<Status(char* text, unsigned int size)> driver_version = {};
  std::function<Status(unsigned int* count)> device_count = {};
  std::function<Status(unsigned int index, Device* device)> device = {};
  std::function<Status(Device device, char* text, unsigned int size)> name = {};
  std::function<Status(Device device, Memory* memory)> memory = {};
  std::function<Status(Device device, unsigned int* generation)> link_generation = {};
  std::function<Status(Device device, unsigned int* width)> link_width = {};
  std::function<Status(Device device, unsigned int* count, Process* processes)> processes = {};
};

// The driver's own; kNotFound where there is none.
Result<NvmlApi> load_nvml();

// Asks for everything. What one GPU does not tell is left empty, with a note.
Result<GpuReport> read_gpus(const NvmlApi& api);

}  // namespace penstock
