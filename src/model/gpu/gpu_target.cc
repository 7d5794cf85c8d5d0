#include "model/gpu/gpu_target.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cuda/nvidia_driver.h"
#include "kernels/gpu/gpu_kernels.h"

namespace penstock {

Result<GpuTarget> open_gpu(std::string_view wanted, const Log& log) {
  PENSTOCK_ASSIGN(auto library, CudaLibrary::load());
  PENSTOCK_ASSIGN(const std::vector<CudaDevice> devices, library->devices());
  PENSTOCK_ASSIGN(const CudaDevice device, choose_device(devices, wanted));
  if (device.compute_major < 8) {
    return fail(ErrorKind::kUnsupported,
                "GPU {} ({}) has compute capability {}.{}, Penstock's kernels need 8.0 or later",
                device.ordinal, device.name, device.compute_major, device.compute_minor);
  }
  PENSTOCK_ASSIGN(auto driver, NvidiaDriver::open(std::move(library), device, log));
  PENSTOCK_TRY(load_gpu_kernels(*driver));
  return GpuTarget{.name = fmt::format("{} (GPU {})", device.name, device.ordinal),
                   .driver = std::move(driver),
                   .log = log};
}

}  // namespace penstock
