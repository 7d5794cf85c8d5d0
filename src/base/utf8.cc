#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace penstock {
namespace {

// The length of the sequence that `lead` begins and the range of its second byte, which is where
// overlong forms, surrogates and too large values show (RFC 3629, section 4).
struct Sequence {
  size_t length = 0;  // 0: no lead byte
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .low = 0xA0};
  if (lead == 0xED) return {.length = 3, .high = 0x9F};
  if (lead < 0xF0) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .low = 0x90};
  if (lead < 0xF4) return {.length = 4};
  if (lead == 0xF4) return {.length = 4, .high = 0x8F};
  return {};
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_of(byte(at));
    if (sequence.length == 0 || text.size() - at < sequence.length) return false;
    if (sequence.length > 1 && (byte(at + 1) < sequence.low || byte(at + 1) > sequence.high)) {
      return false;
    }
    for (size_t i = 2; i < sequence.length; ++i) {
      if (byte(at + i) < 0x80 || byte(at + i) > 0xBF) return false;
    }
    at += sequence.length;
  }
  return true;
}

}  // namespace penstock
