#include "checkpoint/gguf_metadata.h"

#include <algorithm>
#include <utility>

#include "checkpoint/json_text.h"

namespace penstock {
namespace {

std::unexpected<Error> wrong(std::string_view key, const Json& value, std::string_view expected) {
  return fail(ErrorKind::kInvalidData, "metadata \"{}\" is {}, expected {}", key, brief(value),
              expected);
}

std::optional<int64_t> integer_in(const Json& value, int64_t low, int64_t high) {
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) return {};
  if (!value.is_number_integer()) return {};
  const auto n = value.get<int64_t>();
  return n >= low && n <= high ? std::optional(n) : std::nullopt;
}

}  // namespace

Result<std::optional<int64_t>> GgufMetadata::integer(std::string_view key, int64_t low,
                                                     int64_t high) const {
  const auto found = json_.find(key);
  if (found == json_.end()) return std::nullopt;
  if (const auto n = integer_in(*found, low, high)) return n;
  return wrong(key, *found, fmt::format("a whole number from {} to {}", low, high));
}

Result<std::optional<double>> GgufMetadata::number(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) return std::nullopt;
  if (!found->is_number()) return wrong(key, *found, "a number");
  return found->get<double>();
}

Result<std::optional<bool>> GgufMetadata::boolean(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) return std::nullopt;
  if (!found->is_boolean()) return wrong(key, *found, "true or false");
  return found->get<bool>();
}

Result<std::optional<std::string>> GgufMetadata::string(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) return std::nullopt;
  if (!found->is_string()) return wrong(key, *found, "a string");
  return found->get<std::string>();
}

Result<std::optional<int64_t>> GgufMetadata::integer_of_all_layers(std::string_view key,
                                                                   int64_t low,
                                                                   int64_t high) const {
  const auto found = json_.find(key);
  if (found == json_.end() || !found->is_array()) return integer(key, low, high);
  if (found->empty()) return wrong(key, *found, "one number for each layer");
  if (std::ranges::adjacent_find(*found, std::not_equal_to<>()) != found->end()) {
    return fail(ErrorKind::kUnsupported,
                "metadata \"{}\" differs between layers, expected one number for all", key);
  }
  if (const auto n = integer_in(found->front(), low, high)) return n;
  return wrong(key, found->front(), fmt::format("whole numbers from {} to {}", low, high));
}

Json GgufMetadata::below(std::string_view prefix) const {
  Json found = nullptr;
  for (const auto& [key, value] : json_.items()) {
    if (key.starts_with(prefix)) found[key.substr(prefix.size())] = value;
  }
  return found;
}

}  // namespace penstock
