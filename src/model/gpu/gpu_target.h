// The GPU that a model is to run on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "cuda/driver.h"
#include "memory/pin_store.h"

namespace penstock {

struct GpuTarget {
  std::string name = {};                // "NVIDIA H200 (GPU 0)"
  std::shared_ptr<Driver> driver = {};  // with the kernels of kernels/gpu/gpu_kernels.h
  std::optional<uint64_t> vram_budget_bytes =
      {};  // of VRAM for the model; all that is free unless given
  PinOptions pins = {};
  bool use_graphs = true;
  Log log = Log::none();
};

// Opens the GPU that `wanted` names as choose_device takes it, and gives its driver the kernels.
// kNotFound or kUnsupported where there is no driver or no GPU.
Result<GpuTarget> open_gpu(std::string_view wanted, const Log& log);

}  // namespace penstock
