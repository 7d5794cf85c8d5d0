// What can be told of this machine without measuring: its memory, limits, cores and GPUs, and the
// key that its profile is kept under.
#pragma once

#include "cuda/nvml.h"
#include "memory/plan/machine.h"

namespace penstock {

// No rates; no GPU either, for the plan's GPU is one that a model can run on (there are no kernels
// for it yet): what is there only counts for the key.
Machine machine_facts(const GpuReport& gpus);

// The GPUs that the driver's library tells of; none without one.
GpuReport gpus_here();

}  // namespace penstock
