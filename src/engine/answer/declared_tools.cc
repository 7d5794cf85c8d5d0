#include "engine/answer/declared_tools.h"

#include <cmath>
#include <cstdlib>

#include "engine/answer/json_mender.h"
#include "engine/answer/text_scan.h"

namespace penstock {
namespace {

constexpr int kMaxSchemaDepth = 16;  // of alternatives and references inside each other

const OrderedJson* member(const OrderedJson& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

void add_type_named(const OrderedJson& name, ValueTypes& types) {
  types.string |= name == "string";
  types.integer |= name == "integer";
  types.number |= name == "number";
  types.boolean |= name == "boolean";
  types.null |= name == "null";
  types.array |= name == "array";
  types.object |= name == "object";
}

void add_type_of(const OrderedJson& value, ValueTypes& types) {
  types.string |= value.is_string();
  types.integer |= value.is_number_integer();
  types.number |= value.is_number();
  types.boolean |= value.is_boolean();
  types.null |= value.is_null();
  types.array |= value.is_array();
  types.object |= value.is_object();
}

// "#/$defs/Place" in `root`; null where that is nothing.
const OrderedJson* resolve(const OrderedJson& reference, const OrderedJson& root) {
  if (!reference.is_string()) return nullptr;
  std::string_view path = reference.get_ref<const std::string&>();
  if (!path.starts_with("#/")) return nullptr;
  path.remove_prefix(2);
  const OrderedJson* at = &root;
  while (at != nullptr) {
    const size_t slash = path.find('/');
    at = member(*at, path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return at;
}

// `budget` bounds how many schemas are looked at: alternatives of alternatives could be very many.
void add_types(const OrderedJson& schema, const OrderedJson& root, int depth, int& budget,
               ValueTypes& types) {
  if (depth == kMaxSchemaDepth || --budget < 0) return;
  if (const OrderedJson* type = member(schema, "type")) {
    if (type->is_array()) {
      for (const OrderedJson& name : *type) add_type_named(name, types);
    } else {
      add_type_named(*type, types);
    }
    return;  // what else there is only narrows it
  }
  if (const OrderedJson* constant = member(schema, "const")) add_type_of(*constant, types);
  if (const OrderedJson* values = member(schema, "enum"); values != nullptr && values->is_array()) {
    for (const OrderedJson& value : *values) add_type_of(value, types);
  }
  for (const std::string_view name : {"anyOf", "oneOf", "allOf"}) {
    const OrderedJson* alternatives = member(schema, name);
    if (alternatives == nullptr || !alternatives->is_array()) continue;
    for (const OrderedJson& one : *alternatives) add_types(one, root, depth + 1, budget, types);
  }
  if (const OrderedJson* reference = member(schema, "$ref")) {
    if (const OrderedJson* target = resolve(*reference, root)) {
      add_types(*target, root, depth + 1, budget, types);
    }
  }
}

DeclaredTool read_tool(const OrderedJson& function) {
  DeclaredTool tool;
  const OrderedJson* schema = member(function, "parameters");
  if (schema == nullptr) return tool;
  const OrderedJson* properties = member(*schema, "properties");
  if (properties == nullptr || !properties->is_object()) return tool;
  for (const auto& [name, property] : properties->items()) {
    int budget = 256;
    add_types(property, *schema, 0, budget, tool.parameters[name]);
  }
  return tool;
}

bool is_integral(const std::string& number) {
  const double value = std::strtod(number.c_str(), nullptr);
  return std::trunc(value) == value;
}

std::string compact(std::string_view json) {
  JsonMender mender;
  std::string out;
  for (const char byte : json) mender.push(byte, out);
  return out;
}

}  // namespace

std::string typed_json(std::string_view text, ValueTypes types) {
  std::string value(trim(text));
  if (types.null && (value == "null" || value == "None")) return "null";
  if (types.boolean && (value == "true" || value == "True")) return "true";
  if (types.boolean && (value == "false" || value == "False")) return "false";
  if ((types.number || types.integer) && is_json_number(value)) {
    if (types.number || is_integral(value)) return value;
  }
  const bool may_be_array = types.array && value.starts_with('[');
  const bool may_be_object = types.object && value.starts_with('{');
  if ((may_be_array || may_be_object) && parse_json(value)) return compact(value);
  return json_quoted(text);
}

ValueTypes DeclaredTool::types_of(std::string_view parameter) const {
  const auto found = parameters.find(parameter);
  return found == parameters.end() ? ValueTypes{} : found->second;
}

DeclaredTools::DeclaredTools(const OrderedJson& tools) {
  for (const OrderedJson& tool : tools) {
    const OrderedJson* function = member(tool, "function");
    const OrderedJson* name = function == nullptr ? nullptr : member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    tools_.insert_or_assign(name->get<std::string>(), read_tool(*function));
  }
}

const DeclaredTool* DeclaredTools::find(std::string_view name) const {
  const auto found = tools_.find(name);
  return found == tools_.end() ? nullptr : &found->second;
}

bool DeclaredTools::any_begins(std::string_view beginning) const {
  const auto next = tools_.lower_bound(beginning);
  return next != tools_.end() && next->first.starts_with(beginning);
}

}  // namespace penstock
