#include "os/cpu_time.h"

#include <windows.h>

#include <cstdint>

namespace penstock {

double thread_cpu_seconds() {
  FILETIME begun = {};
  FILETIME ended = {};
  FILETIME kernel = {};
  FILETIME user = {};
  if (::GetThreadTimes(::GetCurrentThread(), &begun, &ended, &kernel, &user) == FALSE) return 0;
  const auto ticks = [](const FILETIME& time) {  // of 100 ns
    return static_cast<double>(uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime);
  };
  return 1e-7 * (ticks(kernel) + ticks(user));
}

}  // namespace penstock
