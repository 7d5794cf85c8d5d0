#include "memory/expert_slots.h"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

// A number that is all of the text.
template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

int64_t ExpertSlots::of(int64_t n_experts) const {
  if (share) {
    return std::max<int64_t>(1, static_cast<int64_t>(*share * static_cast<double>(n_experts)));
  }
  return count.value_or(0);
}

Result<ExpertSlots> parse_expert_slots(std::string_view text) {
  if (text == "all") return ExpertSlots{.share = 1.0};
  constexpr double kAllPercent = 100;
  if (text.ends_with('%')) {
    const auto percent = parse_whole<double>(text.substr(0, text.size() - 1));
    if (percent && *percent > 0 && *percent <= kAllPercent) {
      return ExpertSlots{.share = *percent / kAllPercent};
    }
  } else if (const auto number = parse_whole<int64_t>(text); number && *number >= 1) {
    return ExpertSlots{.count = *number};
  }
  return fail(
      ErrorKind::kInvalidArgument,
      "--expert-slots \"{}\": expected a number of at least 1, a share as 12.5% up to 100%, or "
      "all",
      text);
}

}  // namespace penstock
