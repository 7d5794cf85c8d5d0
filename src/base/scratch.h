// Scratch: memory for what is written before it is read, kept from one use to the next.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/aligned.h"

namespace penstock {

// Grows and never shrinks; what it held is lost when it grows, so nothing is copied or cleared.
template <class T>
class Scratch {
 public:
  // n elements from a cache line's start, of any value.
  T* take(size_t n) {
    if (n > capacity_) {
      capacity_ = 0;
      memory_.reset();
      memory_.reset(CacheLineAllocator<T>().allocate(n));
      capacity_ = n;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* memory) const { CacheLineAllocator<T>().deallocate(memory, 0); }
  };
  std::unique_ptr<T, Free> memory_;
  size_t capacity_ = 0;
};

}  // namespace penstock
