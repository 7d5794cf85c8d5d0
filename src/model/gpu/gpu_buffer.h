// Memory that a step writes before it reads it, on the GPU and on its host side: grows, never
// shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/device_objects.h"
#include "kernels/gpu/gpu_queue.h"
#include "memory/pin_store.h"
#include "os/memory.h"

namespace penstock {

// Grown only between steps, when no queued work uses what it was.
template <class T>
class GpuBuffer {
 public:
  Result<void> reserve(Driver& driver, size_t n) {
    if (memory_ && memory_->bytes().size() >= n * sizeof(T)) return {};
    memory_.reset();
    ++n_allocations_;
    PENSTOCK_ASSIGN(memory_, DeviceMemory::allocate(driver, std::max<size_t>(n * sizeof(T), 256)));
    return {};
  }
  // As reserve; new memory begins as zeros.
  Result<void> reserve_zeros(const GpuQueue& queue, size_t n) {
    const int64_t had = n_allocations_;
    PENSTOCK_TRY(reserve(*queue.driver, n));
    if (n_allocations_ == had) return {};
    const std::vector<std::byte> zeros(memory_->bytes().size());
    // From memory that is not registered: it has been read when the call returns.
    return settled(*queue.driver,
                   queue.driver->copy_to_device(memory_->bytes(), zeros, queue.stream));
  }
  // What was reserved is enough for it.
  DeviceSpan<T> take(size_t n) const {
    return memory_->bytes().subspan(0, n * sizeof(T)).template as<T>();
  }
  GpuRows<T> rows(int64_t n_rows, int64_t cols, int64_t stride) const {
    return {take(static_cast<size_t>(n_rows * stride)), n_rows, cols, stride};
  }
  int64_t n_allocations() const { return n_allocations_; }

 private:
  std::optional<DeviceMemory> memory_;
  int64_t n_allocations_ = 0;
};

// Host memory that copies go through, page-locked as far as the driver grants it.
class HostStaging {
 public:
  Result<void> reserve(PinStore& pins, size_t bytes) {
    if (memory_ && memory_->bytes().size() >= bytes) return {};
    memory_.reset();
    ++n_allocations_;
    PENSTOCK_ASSIGN(AnonymousMemory memory, AnonymousMemory::reserve(bytes, OsPages::kHuge));
    memory_ = pins.pin(std::move(memory));
    return {};
  }
  std::span<std::byte> bytes() const { return memory_ ? memory_->bytes() : std::span<std::byte>(); }
  bool is_pinned() const { return memory_ && memory_->pinned_bytes() >= memory_->bytes().size(); }

  int64_t n_allocations() const { return n_allocations_; }

  // Bytes [begin, begin + to.size()) to the GPU.
  Result<void> copy_to_device(const GpuQueue& queue, size_t begin, DeviceBytes to) const {
    for (const CopyPiece& piece : memory_->pieces(begin, begin + to.size())) {
      PENSTOCK_TRY(settled(
          *queue.driver, queue.driver->copy_to_device(
                             to.subspan(piece.begin - begin, piece.end - piece.begin),
                             bytes().subspan(piece.begin, piece.end - piece.begin), queue.stream)));
    }
    return {};
  }
  // Bytes from the GPU to [begin, begin + from.size()).
  Result<void> copy_to_host(const GpuQueue& queue, size_t begin, ConstDeviceBytes from) const {
    for (const CopyPiece& piece : memory_->pieces(begin, begin + from.size())) {
      PENSTOCK_TRY(settled(
          *queue.driver,
          queue.driver->copy_to_host(bytes().subspan(piece.begin, piece.end - piece.begin),
                                     from.subspan(piece.begin - begin, piece.end - piece.begin),
                                     queue.stream)));
    }
    return {};
  }

 private:
  std::optional<PinnedMemory> memory_;
  int64_t n_allocations_ = 0;
};

}  // namespace penstock
