#include "engine/sampling/token_mask.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace penstock {
namespace {

constexpr size_t kWordBits = 64;

}  // namespace

bool contains(std::span<const uint64_t> ids, int32_t id) {
  const size_t word = static_cast<size_t>(id) / kWordBits;
  return word < ids.size() && ((ids[word] >> (static_cast<size_t>(id) % kWordBits)) & 1) != 0;
}

void ban_others(std::span<const uint64_t> ids, std::span<float> logits) {
  constexpr float kBanned = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < logits.size(); begin += kWordBits) {
    const auto block = logits.subspan(begin, std::min(kWordBits, logits.size() - begin));
    const size_t word = begin / kWordBits;
    uint64_t banned = word < ids.size() ? ~ids[word] : ~uint64_t{0};
    if (banned == ~uint64_t{0}) {  // the words of a grammar are mostly all or nothing
      std::ranges::fill(block, kBanned);
      continue;
    }
    for (; banned != 0; banned &= banned - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(banned));
      if (i < block.size()) block[i] = kBanned;
    }
  }
}

}  // namespace penstock
