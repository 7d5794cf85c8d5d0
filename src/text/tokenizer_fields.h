// Reading the fields of a tokenizer.json: each error names the field, what it is and what it should
// be.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// An object of the file and its place there, for messages: "decoder.decoders[2]".
struct JsonObject {
  const nlohmann::json* value = nullptr;
  std::string where;

  const nlohmann::json* find(std::string_view name) const;  // nullptr where absent or null
  std::string path(std::string_view name) const;            // "decoder.type"

  Result<std::string> text(std::string_view name) const;
  Result<std::string> text_or(std::string_view name, std::string_view absent) const;
  Result<bool> flag_or(std::string_view name, bool absent) const;
  Result<int64_t> integer(std::string_view name) const;
  Result<JsonObject> object(std::string_view name) const;
};

// Fails where `value` is no object.
Result<JsonObject> json_object(const nlohmann::json& value, std::string where);

// "a string", "an array", ...
std::string_view json_kind(const nlohmann::json& value);

// The steps of a field that is null, one step, or {"type": "Sequence", <list>: [steps]} with
// sequences flattened.
Result<std::vector<JsonObject>> json_steps(const nlohmann::json* value, std::string where,
                                           std::string_view list);

}  // namespace penstock
