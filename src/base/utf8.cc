#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace penstock {
namespace {

// How a character that starts with some byte goes on: table 3-7 of the Unicode standard.
struct Lead {
  uint8_t length = 0;  // of the whole character; 0: no character starts so
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.length = 3, .second_max = 0x9F};
  if (byte < 0xF0) return {.length = 3};
  if (byte == 0xF0) return {.length = 4, .second_min = 0x90};
  if (byte < 0xF4) return {.length = 4};
  if (byte == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

}  // namespace

Utf8Front utf8_front(std::string_view bytes) {
  using Kind = Utf8Front::Kind;
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {Kind::kBroken, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t max = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < min || byte > max) return {Kind::kBroken, i};
  }
  return {Kind::kWhole, lead.length};
}

size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t eight = 0; text.size() - at >= sizeof eight; at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (true) {
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return std::nullopt;
    const Utf8Front front = utf8_front(text.substr(at));
    if (front.kind != Utf8Front::Kind::kWhole) return at;
    at += front.length;
  }
}

}  // namespace penstock
