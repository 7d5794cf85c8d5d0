#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

void check_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "penstock: bug at %s:%d: %s (%s)\n", file, line, message, condition);
  std::abort();
}

}  // namespace penstock
