// The gated activation on a GPU.
#pragma once

#include "base/result.h"
#include "kernels/gpu/gpu_queue.h"

namespace penstock {

class FakeDriver;

// act = silu(gate) * up, rounded to bf16; gate and up of one stride.
Result<void> gpu_swiglu(const GpuQueue& queue, GpuRows<const float> gate, GpuRows<const float> up,
                        GpuRows<uint16_t> act);

void add_swiglu_stand_ins(FakeDriver& driver);

}  // namespace penstock
