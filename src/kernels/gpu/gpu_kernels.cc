#include "kernels/gpu/gpu_kernels.h"

#include "kernels/attention/attention_gpu.h"
#include "kernels/gpu/gpu_modules.h"
#include "kernels/matmul/experts_gpu.h"
#include "kernels/matmul/matmul_gpu.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "kernels/router/router_gpu.h"
#include "kernels/swiglu/swiglu_gpu.h"

namespace penstock {

Result<void> load_gpu_kernels(NvidiaDriver& driver) {
  if (gpu_modules().empty()) {
    return fail(ErrorKind::kUnsupported,
                "this build has no GPU code: nvcc was not found when it was built");
  }
  for (const GpuModule& module : gpu_modules()) {
    PENSTOCK_TRY(driver.load_module(module.image));
  }
  return {};
}

void add_gpu_stand_ins(FakeDriver& driver) {
  add_attention_stand_ins(driver);
  add_experts_stand_ins(driver);
  add_matmul_stand_ins(driver);
  add_rms_norm_stand_ins(driver);
  add_router_stand_ins(driver);
  add_swiglu_stand_ins(driver);
}

}  // namespace penstock
