#include "text/tokenizer_fields.h"

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

std::unexpected<Error> wrong_kind(const std::string& path, const nlohmann::json* found,
                                  std::string_view expected) {
  return fail(ErrorKind::kInvalidData, "{} is {}; expected {}", path,
              found ? json_kind(*found) : "missing", expected);
}

Result<void> append_steps(const nlohmann::json& value, std::string where, std::string_view list,
                          std::vector<JsonObject>& steps) {
  PENSTOCK_ASSIGN(JsonObject step, json_object(value, std::move(where)));
  PENSTOCK_ASSIGN(const std::string type, step.text("type"));
  if (type != "Sequence") {
    steps.push_back(std::move(step));
    return {};
  }
  const nlohmann::json* inner = step.find(list);
  if (inner == nullptr || !inner->is_array()) return wrong_kind(step.path(list), inner, "an array");
  for (size_t i = 0; i < inner->size(); ++i) {
    PENSTOCK_TRY(append_steps((*inner)[i], fmt::format("{}[{}]", step.path(list), i), list, steps));
  }
  return {};
}

}  // namespace

std::string_view json_kind(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  return "null";
}

const nlohmann::json* JsonObject::find(std::string_view name) const {
  const auto found = value->find(name);
  return found == value->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonObject::path(std::string_view name) const {
  return where.empty() ? std::string(name) : fmt::format("{}.{}", where, name);
}

Result<std::string> JsonObject::text(std::string_view name) const {
  const nlohmann::json* field = find(name);
  if (field == nullptr || !field->is_string()) return wrong_kind(path(name), field, "a string");
  return field->get<std::string>();
}

Result<std::string> JsonObject::text_or(std::string_view name, std::string_view absent) const {
  if (find(name) == nullptr) return std::string(absent);
  return text(name);
}

Result<bool> JsonObject::flag_or(std::string_view name, bool absent) const {
  const nlohmann::json* field = find(name);
  if (field == nullptr) return absent;
  if (!field->is_boolean()) return wrong_kind(path(name), field, "true or false");
  return field->get<bool>();
}

Result<int64_t> JsonObject::integer(std::string_view name) const {
  const nlohmann::json* field = find(name);
  if (field == nullptr || !field->is_number_integer() ||
      (field->is_number_unsigned() && field->get<uint64_t>() > INT64_MAX)) {
    return wrong_kind(path(name), field, "a whole number");
  }
  return field->get<int64_t>();
}

Result<JsonObject> JsonObject::object(std::string_view name) const {
  const nlohmann::json* field = find(name);
  if (field == nullptr) return wrong_kind(path(name), field, "an object");
  return json_object(*field, path(name));
}

Result<JsonObject> json_object(const nlohmann::json& value, std::string where) {
  if (!value.is_object()) return wrong_kind(where, &value, "an object");
  return JsonObject{&value, std::move(where)};
}

Result<std::vector<JsonObject>> json_steps(const nlohmann::json* value, std::string where,
                                           std::string_view list) {
  std::vector<JsonObject> steps;
  if (value != nullptr) PENSTOCK_TRY(append_steps(*value, std::move(where), list, steps));
  return steps;
}

}  // namespace penstock
