// Loads a checkpoint as a model that runs on a GPU alone: all weights and the KV cache in VRAM.
#pragma once

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/gpu/gpu_target.h"
#include "model/load.h"

namespace penstock {

// An error before anything is read where the GPU cannot run the model: a format without kernels, or
// more weights than VRAM, with both numbers.
Result<LoadedModel> load_gpu_model(const Checkpoint& checkpoint, const LoadOptions& options,
                                   const GpuTarget& target);

}  // namespace penstock
