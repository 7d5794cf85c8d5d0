// Between template values and JSON: inputs come from it, and the filter `tojson` writes it.
#pragma once

#include "base/json.h"
#include "text/jinja/value.h"

namespace penstock {

// Python's json.dumps, with the defaults that chat templates have.
struct JinjaJsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // of one level; nothing: all on one line
  std::optional<std::string> item_separator;
  std::string key_separator = ": ";
  bool sort_keys = false;
};

Result<std::string> jinja_to_json(JinjaMeter& meter, const JinjaValue& value,
                                  const JinjaJsonStyle& style);

// An input variable as a value. kInvalidArgument for text that is not UTF-8 and for nesting beyond
// the meter's limit.
Result<JinjaValue> jinja_from_json(JinjaMeter& meter, const OrderedJson& json);

}  // namespace penstock
