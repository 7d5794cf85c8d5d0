// Small questions about text that comes byte by byte.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

constexpr std::string_view trim_front(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

constexpr std::string_view trim(std::string_view text) {
  text = trim_front(text);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

enum class Match : uint8_t {
  kNone,
  kBegun,  // it could still become one
  kWhole,
};

constexpr Match match(std::string_view text, std::string_view literal) {
  if (text == literal) return Match::kWhole;
  return literal.starts_with(text) ? Match::kBegun : Match::kNone;
}

// Of literals none of which begins another.
constexpr Match match_any(std::string_view text, std::span<const std::string_view> literals) {
  Match best = Match::kNone;
  for (const std::string_view literal : literals) {
    const Match found = match(text, literal);
    if (found == Match::kWhole) return found;
    if (found == Match::kBegun) best = found;
  }
  return best;
}

}  // namespace penstock
