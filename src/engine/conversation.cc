#include "engine/conversation.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "engine/json_fields.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

std::unexpected<Error> refuse(const std::string& field, const std::string& complaint) {
  return refuse_field(ErrorKind::kInvalidArgument, field, complaint);
}

// The member `name`, or null where it is null or absent.
OrderedJson* find(OrderedJson& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<void> need_string(OrderedJson& object, std::string_view name, const std::string& where) {
  const OrderedJson* value = find(object, name);
  const std::string field = fmt::format("{}.{}", where, name);
  if (value == nullptr) return refuse(field, "is missing");
  if (!value->is_string()) return wrong_type(field, "a string", *value);
  return {};
}

Result<std::string> text_of_parts(OrderedJson& parts, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string field = fmt::format("{}[{}]", where, i);
    OrderedJson& part = parts[i];
    if (!part.is_object()) return wrong_type(field, "an object", part);
    PENSTOCK_TRY(need_string(part, "type", field));
    const auto& type = part["type"].get_ref<const std::string&>();
    if (type != "text") {
      return refuse_field(ErrorKind::kUnsupported, field + ".type",
                          fmt::format("is \"{}\", but this model reads only \"text\"", type));
    }
    PENSTOCK_TRY(need_string(part, "text", field));
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

Result<void> normalize_content(OrderedJson& message, const std::string& where) {
  OrderedJson* content = find(message, "content");
  if (content == nullptr) {
    message["content"] = "";
    return {};
  }
  if (content->is_string()) return {};
  if (!content->is_array()) return wrong_type(where, "a string or an array of parts", *content);
  PENSTOCK_ASSIGN(*content, text_of_parts(*content, where));
  return {};
}

// Templates print arguments with tojson or walk over them; OpenAI sends them as the text of an
// object. Other text, which a model may well have written, is left to the template as it is.
void parse_arguments(OrderedJson& function) {
  OrderedJson* arguments = find(function, "arguments");
  if (arguments == nullptr) {
    function["arguments"] = OrderedJson::object();
    return;
  }
  if (!arguments->is_string()) return;
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.empty()) {
    *arguments = OrderedJson::object();
  } else if (auto parsed = parse_ordered_json(text); parsed && parsed->is_object()) {
    *arguments = *std::move(parsed);
  }
}

Result<void> normalize_tool_calls(OrderedJson& message, const std::string& where) {
  OrderedJson* calls = find(message, "tool_calls");
  if (calls == nullptr || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return {};
  }
  if (!calls->is_array()) return wrong_type(where, "an array", *calls);
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string field = fmt::format("{}[{}]", where, i);
    OrderedJson& call = (*calls)[i];
    if (!call.is_object()) return wrong_type(field, "an object", call);
    OrderedJson* function = find(call, "function");
    if (function == nullptr) return refuse(field + ".function", "is missing");
    if (!function->is_object()) return wrong_type(field + ".function", "an object", *function);
    PENSTOCK_TRY(need_string(*function, "name", field + ".function"));
    parse_arguments(*function);
  }
  return {};
}

Result<void> normalize_message(OrderedJson& message, const std::string& where) {
  if (!message.is_object()) return wrong_type(where, "an object", message);
  PENSTOCK_TRY(need_string(message, "role", where));
  const auto& role = message["role"].get_ref<const std::string&>();
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    return refuse(where + ".role",
                  fmt::format("is \"{}\", but must be one of {}", role, fmt::join(kRoles, ", ")));
  }
  PENSTOCK_TRY(normalize_content(message, where + ".content"));
  return normalize_tool_calls(message, where + ".tool_calls");
}

Result<void> check_tools(OrderedJson& tools) {
  if (tools.is_null()) tools = OrderedJson::array();
  if (!tools.is_array()) return wrong_type("tools", "an array", tools);
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string field = fmt::format("tools[{}]", i);
    if (!tools[i].is_object()) return wrong_type(field, "an object", tools[i]);
    OrderedJson* function = find(tools[i], "function");
    if (function == nullptr) return refuse(field + ".function", "is missing");
    if (!function->is_object()) return wrong_type(field + ".function", "an object", *function);
    PENSTOCK_TRY(need_string(*function, "name", field + ".function"));
  }
  return {};
}

}  // namespace

Result<void> normalize(Conversation& conversation) {
  OrderedJson& messages = conversation.messages;
  if (!messages.is_array()) return wrong_type("messages", "an array", messages);
  if (messages.empty()) return refuse("messages", "is empty, but must have at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    PENSTOCK_TRY(normalize_message(messages[i], fmt::format("messages[{}]", i)));
  }
  return check_tools(conversation.tools);
}

}  // namespace penstock
