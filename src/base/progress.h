// How long work tells whoever started it how far it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace penstock {

struct ProgressUpdate {
  std::string_view stage;  // "reading weights", "writing experts": as people see it
  uint64_t done = 0;       // bytes
  uint64_t total = 0;      // bytes; 0 when not known yet
};

// Called from the thread that works, often: the receiver decides what to show. May be empty.
using ProgressFn = std::function<void(const ProgressUpdate&)>;

}  // namespace penstock
