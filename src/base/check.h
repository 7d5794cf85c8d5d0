// PENSTOCK_CHECK: stops the program at a bug of ours. Never for input from outside, which becomes a
// Result.
#pragma once

namespace penstock {

[[noreturn]] void check_failed(const char* condition, const char* message, const char* file,
                               int line);

}  // namespace penstock

#define PENSTOCK_CHECK(condition, message)                                               \
  do {                                                                                   \
    if (!(condition)) ::penstock::check_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
