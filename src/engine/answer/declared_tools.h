// The tools that a request declares: their names, and of what type their parameters are.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock {

// What a JSON schema allows.
struct ValueTypes {
  bool string = false;
  bool integer = false;
  bool number = false;
  bool boolean = false;
  bool null = false;
  bool array = false;
  bool object = false;

  bool only_string() const { return !(integer || number || boolean || null || array || object); }
  bool operator==(const ValueTypes&) const = default;
};

// `text`, which says a value without JSON's quotes, as JSON: of another type than string where the
// schema allows that type and the text is such a value, otherwise a string.
std::string typed_json(std::string_view text, ValueTypes types);

struct DeclaredTool {
  std::map<std::string, ValueTypes, std::less<>> parameters = {};

  // Of parameters that the schema does not know, or says nothing about: none, which is to say text.
  ValueTypes types_of(std::string_view parameter) const;
};

// Immutable.
class DeclaredTools {
 public:
  DeclaredTools() = default;
  // An array of OpenAI's shape, as normalize() leaves it. Types are those that a property's `type`,
  // `enum` and `const` name, there or below `anyOf`, `oneOf`, `allOf` and local `$ref`s.
  explicit DeclaredTools(const OrderedJson& tools);

  bool empty() const { return tools_.empty(); }
  const DeclaredTool* find(std::string_view name) const;  // null: undeclared
  bool any_begins(std::string_view beginning) const;

 private:
  std::map<std::string, DeclaredTool, std::less<>> tools_;
};

}  // namespace penstock
