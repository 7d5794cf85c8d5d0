#include "engine/prefix_keys.h"

#include <algorithm>

#include "kernels/attention/attention.h"

namespace penstock {

int64_t common_pages(const PrefixKeys& a, const PrefixKeys& b) {
  const int64_t limit = std::min(a.size(), b.size());
  int64_t n = 0;
  while (n < limit && a.at(n) == b.at(n)) ++n;
  return n / kPageTokens;
}

}  // namespace penstock
