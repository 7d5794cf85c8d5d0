#include "cli/load/lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace penstock {
namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  T value = {};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> length(std::string_view text) {
  const auto value = number<int64_t>(text);
  return value && *value >= 1 && *value <= Lengths::kLongest ? value : std::nullopt;
}

// `text` before and after the first `separator`; the second part is empty when there is none.
std::pair<std::string_view, std::string_view> split(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::optional<Lengths> parse_uniform(std::string_view text) {
  const auto [first, last] = split(text, '-');
  const auto low = length(first);
  const auto high = length(last);
  if (!low || !high || *low > *high) return std::nullopt;
  return Lengths{.kind = Lengths::Kind::kUniform, .low = *low, .high = *high};
}

std::optional<Lengths> parse_lognormal(std::string_view text) {
  const auto [first, last] = split(text, ',');
  const auto median = length(first);
  const auto sigma = number<double>(last);
  if (!median || !sigma || !(*sigma >= 0 && *sigma <= 10)) return std::nullopt;
  return Lengths{.kind = Lengths::Kind::kLognormal, .low = *median, .sigma = *sigma};
}

std::optional<Lengths> parse(std::string_view text) {
  const auto [kind, rest] = split(text, ':');
  if (kind == "uniform") return parse_uniform(rest);
  if (kind == "lognormal") return parse_lognormal(rest);
  const auto fixed = length(text);
  return fixed ? std::optional(Lengths{.low = *fixed}) : std::nullopt;
}

}  // namespace

int64_t Lengths::draw(Random& random) const {
  switch (kind) {
    case Kind::kFixed:
      return low;
    case Kind::kUniform:
      return low + integer_draw(random, high - low + 1);
    case Kind::kLognormal:
      break;
  }
  const double length = static_cast<double>(low) * std::exp(sigma * normal_draw(random));
  return std::llround(std::clamp(length, 1.0, static_cast<double>(kLongest)));
}

Result<Lengths> parse_lengths(std::string_view text, std::string_view option) {
  if (const auto lengths = parse(text)) return *lengths;
  return fail(ErrorKind::kInvalidArgument,
              "{}: found \"{}\", expected a number of tokens from 1 to {}, uniform:LOW-HIGH or "
              "lognormal:MEDIAN,SIGMA",
              option, text, Lengths::kLongest);
}

}  // namespace penstock
