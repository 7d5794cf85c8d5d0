#include "checkpoint/hf_fields.h"

#include <utility>

#include "checkpoint/json_text.h"

namespace penstock {
namespace {

std::unexpected<Error> wrong(std::string_view name, const Json& value, std::string_view expected) {
  return fail(ErrorKind::kInvalidData, "\"{}\" is {}, expected {}", name, brief(value), expected);
}

// The elements of a list, each through `read`, which returns nullopt for what it cannot use.
template <class T, class Read>
Result<std::vector<T>> list_of(std::string_view name, const Json& list, Read read,
                               std::string_view expected) {
  if (!list.is_array()) return wrong(name, list, expected);
  std::vector<T> values;
  for (const Json& element : list) {
    std::optional<T> value = read(element);
    if (!value) return wrong(name, list, expected);
    values.push_back(*std::move(value));
  }
  return values;
}

std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) return {};
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

}  // namespace

HfFields::Found HfFields::look_up(Names names) const {
  for (const Json* object : {&inner_, outer_}) {
    if (object == nullptr || !object->is_object()) continue;
    for (const std::string_view name : names) {
      const auto found = object->find(name);
      if (found != object->end() && !found->is_null()) return {name, &*found};
    }
  }
  return {};
}

const Json* HfFields::find(Names names) const { return look_up(names).value; }

bool HfFields::is_null(std::string_view name) const {
  for (const Json* object : {&inner_, outer_}) {
    if (object == nullptr || !object->is_object()) continue;
    if (const auto found = object->find(name); found != object->end()) return found->is_null();
  }
  return false;
}

Result<std::optional<int64_t>> HfFields::integer(Names names, int64_t low, int64_t high) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::nullopt;
  const auto n = whole_number(*value);
  if (n && *n >= low && *n <= high) return n;
  return wrong(name, *value, fmt::format("a whole number from {} to {}", low, high));
}

Result<std::optional<double>> HfFields::number(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong(name, *value, "a number");
  return value->get<double>();
}

Result<std::optional<bool>> HfFields::boolean(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong(name, *value, "true or false");
  return value->get<bool>();
}

Result<std::optional<std::string>> HfFields::string(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(name, *value, "a string");
  return value->get<std::string>();
}

Result<std::vector<double>> HfFields::numbers(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::vector<double>{};
  if (value->is_number()) return std::vector{value->get<double>()};
  const auto read = [](const Json& element) {
    return element.is_number() ? std::optional(element.get<double>()) : std::nullopt;
  };
  return list_of<double>(name, *value, read, "a number or a list of them");
}

Result<std::optional<std::vector<std::string>>> HfFields::strings(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::nullopt;
  const auto read = [](const Json& element) {
    return element.is_string() ? std::optional(element.get<std::string>()) : std::nullopt;
  };
  return list_of<std::string>(name, *value, read, "a list of strings");
}

Result<std::vector<int64_t>> HfFields::integers(Names names) const {
  const auto [name, value] = look_up(names);
  if (value == nullptr) return std::vector<int64_t>{};
  if (const auto single = whole_number(*value)) return std::vector{*single};
  return list_of<int64_t>(name, *value, whole_number, "a whole number or a list of them");
}

}  // namespace penstock
