#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace penstock {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// How many bytes the unit `text` stands for; nothing where there is no such unit.
std::optional<uint64_t> unit_bytes(std::string_view text) {
  std::string unit(text);
  std::ranges::transform(unit, unit.begin(), lower);
  if (unit.empty()) return kGiB;
  if (unit == "b") return 1;
  static constexpr std::string_view kPrefixes = "kmgt";
  const size_t prefix = kPrefixes.find(unit[0]);
  if (prefix == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= prefix; ++i) bytes *= rest == "b" ? 1000 : kKiB;
  return bytes;
}

// `digits` units, exactly where they are whole; nothing beyond 64 bits.
std::optional<uint64_t> times(std::string_view digits, uint64_t unit) {
  const char* const end = digits.data() + digits.size();
  uint64_t whole = 0;
  if (const auto read = std::from_chars(digits.data(), end, whole); read.ptr == end) {
    if (read.ec != std::errc() || whole > std::numeric_limits<uint64_t>::max() / unit) {
      return std::nullopt;
    }
    return whole * unit;
  }
  double value = 0;
  const auto read = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  if (read.ptr != end || read.ec != std::errc()) return std::nullopt;
  const double bytes = std::round(value * static_cast<double>(unit));
  if (bytes >= 0x1p64) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t name = 0;
  while (value >= 1024 && name + 1 < kNames.size()) {
    value /= 1024;
    ++name;
  }
  return fmt::format("{:.1f} {}", value, kNames[name]);
}

std::string format_seconds(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  const size_t n_digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view unit = text.substr(n_digits);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto bytes_of_unit = unit_bytes(unit);
  const auto bytes = bytes_of_unit ? times(text.substr(0, n_digits), *bytes_of_unit) : std::nullopt;
  if (bytes) return *bytes;
  return fail(ErrorKind::kInvalidArgument,
              "\"{}\" is no size: expected a number and B, KiB, MiB, GiB or TiB, as in 512MiB or "
              "7.5GiB; a bare number is in GiB",
              text);
}

}  // namespace penstock
