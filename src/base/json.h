// JSON from outside, parsed with bounds: depth, and no duplicate keys where a format forbids them.
#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace penstock {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_depth = 64;  // arrays and objects inside each other
  bool refuse_duplicates =
      false;  // a key twice in one object is an error; otherwise the last one wins
  // Keys of one object. An OrderedJson looks through all of them at each insertion.
  size_t max_keys = std::numeric_limits<size_t>::max();
};

// Errors are kInvalidData and say where: "line 3, column 7: ...". Invalid UTF-8 inside strings is
// refused.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});
// The same, keeping the order of keys: for chat templates, where a tool's schema is printed as it
// came.
Result<OrderedJson> parse_ordered_json(std::string_view text, JsonLimits limits = {});

}  // namespace penstock
