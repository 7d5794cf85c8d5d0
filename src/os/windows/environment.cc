#include "os/environment.h"

#include <cstdlib>

namespace penstock {

std::string_view environment_variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this process writes its environment
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace penstock
