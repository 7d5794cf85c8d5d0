#include "memory/expert_slots.h"

#include <algorithm>
#include <charconv>

namespace penstock {

int64_t ExpertSlots::of(int64_t n_experts) const {
  if (share) {
    return std::max<int64_t>(1, static_cast<int64_t>(*share * static_cast<double>(n_experts)));
  }
  return count.value_or(0);
}

Result<ExpertSlots> parse_expert_slots(std::string_view text) {
  if (text == "all") return ExpertSlots{.share = 1.0};
  constexpr int64_t kAllPercent = 100;
  const bool is_share = text.ends_with('%');
  const std::string_view digits = text.substr(0, text.size() - (is_share ? 1 : 0));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!is_whole || number < 1 || (is_share && number > kAllPercent)) {
    return fail(
        ErrorKind::kInvalidArgument,
        "--expert-slots \"{}\": expected a number of at least 1, a share from 1% to 100%, or all",
        text);
  }
  if (!is_share) return ExpertSlots{.count = number};
  return ExpertSlots{.share = static_cast<double>(number) / static_cast<double>(kAllPercent)};
}

}  // namespace penstock
