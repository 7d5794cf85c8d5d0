#include "cuda/fake_pins.h"

#include <algorithm>

#include "base/integers.h"
#include "base/units.h"

namespace penstock {
namespace {

AddressRange whole_pages(AddressRange range) {
  return {range.begin / kFakeOsPageBytes * kFakeOsPageBytes, round_up(range.end, kFakeOsPageBytes)};
}

}  // namespace

Result<void> FakePins::add(std::span<std::byte> range, size_t others_bytes) {
  if (range.empty()) return fail(ErrorKind::kInvalidArgument, "cannot page-lock no bytes at all");
  const AddressRange pages = whole_pages(range_of(range));
  if (touches(pages)) {
    return fail(ErrorKind::kInvalidArgument,
                "cannot page-lock {}: a part of it is already registered",
                format_bytes(range.size()));
  }
  PENSTOCK_TRY(check_quota(pages.end - pages.begin, others_bytes));
  ranges_[range_of(range).begin] = pages;
  bytes_ += pages.end - pages.begin;
  return {};
}

Result<void> FakePins::check_quota(size_t asked_bytes, size_t others_bytes) {
  const auto refused = [&] {
    return fail(ErrorKind::kExhausted, "cannot page-lock {}: out of memory",
                format_bytes(asked_bytes));
  };
  if (limits_.total_bytes != FakePinLimits::kNone) {
    limits_.total_bytes -= std::min(limits_.total_bytes, limits_.lost_bytes_per_call);
  }
  if (asked_bytes > limits_.call_bytes || is_spent_) return refused();
  if (has_room(others_bytes, asked_bytes)) return {};
  is_spent_ = limits_.is_sticky;
  return refused();
}

Result<void> FakePins::remove(const std::byte* begin) {
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(begin));
  if (found == ranges_.end()) {
    return fail(ErrorKind::kInvalidArgument, "no registered memory begins at this address");
  }
  bytes_ -= found->second.end - found->second.begin;
  ranges_.erase(found);
  return {};
}

bool FakePins::has_room(size_t others_bytes, size_t more_bytes) const {
  const size_t used = bytes_ + others_bytes;
  return used <= limits_.total_bytes && more_bytes <= limits_.total_bytes - used;
}

bool FakePins::is_registered(const std::byte* begin) const {
  return ranges_.contains(reinterpret_cast<uintptr_t>(begin));
}

bool FakePins::holds(AddressRange range) const {
  return std::ranges::any_of(ranges_,
                             [&](const auto& entry) { return entry.second.contains(range); });
}

bool FakePins::touches(AddressRange range) const {
  return std::ranges::any_of(ranges_,
                             [&](const auto& entry) { return entry.second.overlaps(range); });
}

}  // namespace penstock
