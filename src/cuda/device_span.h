// Where device memory is, as types: a DeviceSpan is to a GPU's memory what std::span is to the
// host's, and cannot be read here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"

namespace penstock {

enum class DeviceId : uint8_t {};        // one GPU of this machine
enum class DeviceAddress : uint64_t {};  // as a kernel sees it; 0 is nowhere

constexpr DeviceAddress operator+(DeviceAddress address, size_t bytes) {
  return static_cast<DeviceAddress>(static_cast<uint64_t>(address) + bytes);
}

// `size` objects of T in the memory of `device`, or in host memory that it reaches. Owns nothing.
template <class T>
class DeviceSpan {
 public:
  DeviceSpan() = default;
  DeviceSpan(DeviceId device, DeviceAddress address, size_t size)
      : device_(device), address_(address), size_(size) {}
  template <class U>
    requires(std::is_same_v<T, const U>)
  DeviceSpan(DeviceSpan<U> other)  // implicit: writable where reading is asked for
      : DeviceSpan(other.device(), other.address(), other.size()) {}

  DeviceId device() const { return device_; }
  DeviceAddress address() const { return address_; }
  size_t size() const { return size_; }
  size_t size_bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }

  DeviceSpan subspan(size_t begin, size_t size) const {
    PENSTOCK_CHECK(begin <= size_ && size <= size_ - begin, "past the end of a DeviceSpan");
    return DeviceSpan(device_, address_ + begin * sizeof(T), size);
  }

  // The same bytes as objects of another type, the last of them whole.
  template <class U>
    requires(std::is_const_v<U> || !std::is_const_v<T>)
  DeviceSpan<U> as() const {
    PENSTOCK_CHECK(size_bytes() % sizeof(U) == 0, "a part of an object is left over");
    PENSTOCK_CHECK(static_cast<uint64_t>(address_) % alignof(U) == 0, "not aligned for its type");
    return DeviceSpan<U>(device_, address_, size_bytes() / sizeof(U));
  }

 private:
  DeviceId device_ = {};
  DeviceAddress address_ = {};
  size_t size_ = 0;
};

using DeviceBytes = DeviceSpan<std::byte>;
using ConstDeviceBytes = DeviceSpan<const std::byte>;

}  // namespace penstock
