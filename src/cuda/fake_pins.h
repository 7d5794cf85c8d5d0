// For tests, part of the fake driver: which host memory is registered, and how much of it a
// scripted system grants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>

#include "base/result.h"
#include "cuda/fake_work.h"

namespace penstock {

inline constexpr size_t kFakeOsPageBytes = 4096;

struct FakePinLimits {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  size_t total_bytes = kNone;      // of all registrations, and of what else the pool is for
  size_t call_bytes = kNone;       // of one
  bool is_sticky = false;          // once one was refused for the total, every later one is too
  size_t lost_bytes_per_call = 0;  // by which the total shrinks with every registration asked for
};

// Thread-compatible. Registered is registered by whole OS pages.
class FakePins {
 public:
  explicit FakePins(FakePinLimits limits) : limits_(limits) {}

  // `others_bytes`: what else takes from the same pool just now.
  Result<void> add(std::span<std::byte> range, size_t others_bytes);
  Result<void> remove(const std::byte* begin);
  // Whether the pool has room for so much more that is not a registration.
  bool has_room(size_t others_bytes, size_t more_bytes) const;
  void set_total(size_t bytes) { limits_.total_bytes = bytes; }

  size_t bytes() const { return bytes_; }  // registered, in whole OS pages
  size_t count() const { return ranges_.size(); }
  bool is_registered(const std::byte* begin) const;
  // Whether `range` lies in one registration, and whether it touches any.
  bool holds(AddressRange range) const;
  bool touches(AddressRange range) const;

 private:
  Result<void> check_quota(size_t asked_bytes, size_t others_bytes);

  FakePinLimits limits_;
  std::map<uint64_t, AddressRange> ranges_;  // by the address asked for; the whole pages it covers
  size_t bytes_ = 0;
  bool is_spent_ = false;
};

}  // namespace penstock
