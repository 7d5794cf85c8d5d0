#include "engine/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

namespace penstock {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::optional<int64_t> to_integer(const OrderedJson& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number > static_cast<uint64_t>(kMost) ? kMost : static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::trunc(number) != number) return std::nullopt;  // true for NaN
  if (number >= 0x1p63) return kMost;
  if (number < -0x1p63) return kLeast;
  return static_cast<int64_t>(number);
}

}  // namespace

std::unexpected<Error> refuse_field(ErrorKind kind, std::string_view field,
                                    std::string_view complaint) {
  Error error{kind, fmt::format("{} {}", field, complaint)};
  error.param = field;
  return std::unexpected(std::move(error));
}

std::unexpected<Error> wrong_type(std::string_view field, std::string_view expected,
                                  const OrderedJson& found) {
  return refuse_field(ErrorKind::kInvalidArgument, field,
                      fmt::format("must be {}, but is {}", expected, found.type_name()));
}

const OrderedJson* JsonFields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<bool>> JsonFields::flag(std::string_view name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong_type(path(name), "true or false", *value);
  return value->get<bool>();
}

Result<std::optional<double>> JsonFields::number(std::string_view name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong_type(path(name), "a number", *value);
  return value->get<double>();
}

Result<std::optional<int64_t>> JsonFields::integer(std::string_view name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto number = to_integer(*value)) return number;
  if (!value->is_number()) return wrong_type(path(name), "an integer", *value);
  return refuse_field(ErrorKind::kInvalidArgument, path(name),
                      fmt::format("must be an integer, but is {}", value->get<double>()));
}

Result<std::optional<std::string>> JsonFields::text(std::string_view name) const {
  const OrderedJson* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_type(path(name), "a string", *value);
  return value->get<std::string>();
}

Result<std::vector<std::string>> JsonFields::texts(std::string_view name) const {
  const OrderedJson* value = find(name);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (value->is_string()) return std::vector{value->get<std::string>()};
  if (!value->is_array()) return wrong_type(path(name), "a string or an array of strings", *value);
  for (const OrderedJson& item : *value) {
    if (!item.is_string()) {
      return wrong_type(path(fmt::format("{}[{}]", name, all.size())), "a string", item);
    }
    all.push_back(item.get<std::string>());
  }
  return all;
}

Result<std::vector<int64_t>> JsonFields::integers(std::string_view name) const {
  const OrderedJson* value = find(name);
  std::vector<int64_t> all;
  if (value == nullptr) return all;
  if (!value->is_array()) return wrong_type(path(name), "an array of integers", *value);
  for (const OrderedJson& item : *value) {
    const auto number = to_integer(item);
    if (!number)
      return wrong_type(path(fmt::format("{}[{}]", name, all.size())), "an integer", item);
    all.push_back(*number);
  }
  return all;
}

Result<const OrderedJson*> JsonFields::object(std::string_view name) const {
  const OrderedJson* value = find(name);
  if (value != nullptr && !value->is_object()) return wrong_type(path(name), "an object", *value);
  return value;
}

}  // namespace penstock
