// Where GPU kernels are queued, and the rows of numbers in device memory that they work on.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/result.h"
#include "cuda/driver.h"

namespace penstock {

// One stream of a driver that has the modules of gpu_modules.h. What is queued runs in order; an
// error of its running shows at a later call.
struct GpuQueue {
  Driver* driver = nullptr;
  StreamId stream = {};

  Result<void> launch(const KernelLaunch& launch,
                      std::initializer_list<KernelArgument> arguments) const {
    return settled(*driver, driver->launch(launch, arguments, stream));
  }
};

// bf16 numbers are uint16_t, as everywhere.
template <class T>
struct GpuRows {
  DeviceSpan<T> data = {};
  int64_t n_rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  DeviceSpan<T> row(int64_t i) const {
    return data.subspan(static_cast<size_t>(i * stride), static_cast<size_t>(cols));
  }
  GpuRows rows(int64_t begin, int64_t n) const {
    return {data.subspan(static_cast<size_t>(begin * stride), static_cast<size_t>(n * stride)), n,
            cols, stride};
  }
  operator GpuRows<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, n_rows, cols, stride};
  }
};

constexpr uint32_t blocks_for(int64_t n, int64_t per_block) {
  return static_cast<uint32_t>((n + per_block - 1) / per_block);
}

}  // namespace penstock
