// The GPU kernels that this binary carries, compiled.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace penstock {

// A fat binary: machine code for some GPUs, PTX for later ones.
struct GpuModule {
  std::string_view name;  // of its source
  std::span<const std::byte> image;
};

// Empty where the build found no nvcc, or was told to leave GPU code out.
std::span<const GpuModule> gpu_modules();

}  // namespace penstock
