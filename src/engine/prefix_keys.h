// What stands at each position of a sequence, as numbers that are equal where the content is: the
// keys by which sequences that begin alike are found.
#pragma once

#include <cstdint>
#include <span>

namespace penstock {

using PositionKey = uint64_t;

// Positions whose content is no text, an image's for example: their token ids are all the same, so
// the content's own hash tells them apart.
struct ContentSpan {
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t hash = 0;
};

// The keys of a sequence's first positions. A view: as long-lived as what it looks at.
struct PrefixKeys {
  std::span<const int32_t> tokens = {};
  std::span<const ContentSpan> content = {};  // in order, without overlaps

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }

  PositionKey at(int64_t position) const {
    for (const ContentSpan& span : content) {
      if (position < span.begin) break;
      if (position < span.end) return content_key(span, position - span.begin);
    }
    return static_cast<uint32_t>(tokens[static_cast<size_t>(position)]);
  }

 private:
  // Never a token's key: those have their upper half clear. The mixing is splitmix64's.
  static PositionKey content_key(const ContentSpan& span, int64_t offset) {
    uint64_t z = span.hash + 0x9E3779B97F4A7C15U * (static_cast<uint64_t>(offset) + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31)) | (uint64_t{1} << 63);
  }
};

// How many full pages a and b begin alike.
int64_t common_pages(const PrefixKeys& a, const PrefixKeys& b);

}  // namespace penstock
