// Gives a driver the kernels of every operation: those of this binary, or host code in their place.
#pragma once

#include "base/result.h"
#include "cuda/fake_driver.h"
#include "cuda/nvidia_driver.h"

namespace penstock {

// kUnsupported where the build has no GPU code.
Result<void> load_gpu_kernels(NvidiaDriver& driver);

// For tests: the scalar references, which work from the fake driver's device memory.
void add_gpu_stand_ins(FakeDriver& driver);

}  // namespace penstock
