// Counts what one render uses and says when a limit is passed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/result.h"
#include "text/jinja/limits.h"

namespace penstock {

class JinjaMeter;

// Memory held by one value; given back to the meter with it. Values of the parsed template have
// none.
class JinjaCharge {
 public:
  JinjaCharge() = default;
  JinjaCharge(JinjaMeter* meter, size_t bytes) : meter_(meter), bytes_(bytes) {}
  JinjaCharge(JinjaCharge&& other) noexcept
      : meter_(std::exchange(other.meter_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  JinjaCharge& operator=(JinjaCharge&& other) noexcept {
    std::swap(meter_, other.meter_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~JinjaCharge();

 private:
  JinjaMeter* meter_ = nullptr;
  size_t bytes_ = 0;
};

// One thread: the render's. Lives longer than every value of the render.
//
// Making a value never fails by itself: a limit passed there is reported by the next step(). So
// whatever can grow faster than its inputs (repetition, padding, replacement) asks has_room()
// first.
class JinjaMeter {
 public:
  explicit JinjaMeter(const TemplateLimits& limits) : limits_(limits) {}
  JinjaMeter(const JinjaMeter&) = delete;
  JinjaMeter& operator=(const JinjaMeter&) = delete;

  const TemplateLimits& limits() const { return limits_; }

  // Counts `n` steps; kExhausted when any limit has been passed.
  Result<void> step(size_t n = 1) {
    steps_ += n;
    if (steps_ <= limits_.max_steps && live_bytes_ <= limits_.max_memory_bytes && !too_deep_) {
      return {};
    }
    return exhausted();
  }
  // Text that is copied, compared or searched; and text that is looked at character by character.
  Result<void> step_bytes(size_t bytes) { return step(1 + bytes / 64); }
  Result<void> step_characters(size_t bytes) { return step(1 + bytes / 16); }

  // kExhausted when `count` things of `bytes_each` would not fit in what is left.
  Result<void> has_room(size_t count, size_t bytes_each = 1) const;

  JinjaCharge charge(size_t bytes) {
    live_bytes_ += bytes;
    steps_ += bytes / 64;
    return JinjaCharge(this, bytes);
  }

  // The depth of a value around children of which the deepest is `deepest` deep.
  size_t depth_around(size_t deepest) {
    if (deepest >= limits_.max_depth) too_deep_ = true;
    return deepest + 1;
  }

  // Printing goes into what a value holds, and a namespace may hold itself: bounded by max_depth.
  size_t print_depth = 0;

 private:
  friend class JinjaCharge;
  std::unexpected<Error> exhausted() const;

  TemplateLimits limits_;
  size_t steps_ = 0;
  size_t live_bytes_ = 0;
  bool too_deep_ = false;
};

inline JinjaCharge::~JinjaCharge() {
  if (meter_ != nullptr) meter_->live_bytes_ -= bytes_;
}

}  // namespace penstock
