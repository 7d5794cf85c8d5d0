// Methods of lists, dicts and numbers; those of str are in methods_text.cc.
#include "text/jinja/methods.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/args.h"
#include "text/jinja/compare.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/iterate.h"

namespace penstock {
namespace {

struct MethodEntry {
  std::string_view name;
  JinjaMethod method;
};

Result<JinjaValue> sequence_count(JinjaRender& render, const JinjaValue& self,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("count", args, {"value"}, 1));
  JinjaCursor cursor(render.meter(), self);
  size_t count = 0;
  while (true) {
    PENSTOCK_ASSIGN(const auto item, cursor.next());
    if (!item) return JinjaValue::integer(count);
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(render.meter(), *item, params.at(0)));
    if (equal) ++count;
  }
}

Result<JinjaValue> sequence_index(JinjaRender& render, const JinjaValue& self,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("index", args, {"value", "start", "stop"}, 1));
  const auto length = static_cast<JinjaInt>(length_of(self).value_or(0));
  PENSTOCK_ASSIGN(JinjaInt start, params.integer_or(1, 0));
  PENSTOCK_ASSIGN(JinjaInt stop, params.integer_or(2, length));
  if (start < 0) start = std::max<JinjaInt>(start + length, 0);
  if (stop < 0) stop += length;
  JinjaCursor cursor(render.meter(), self);
  for (JinjaInt at = 0; at < std::min(stop, length); ++at) {
    PENSTOCK_ASSIGN(const auto item, cursor.next());
    if (!item) break;
    if (at < start) continue;
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(render.meter(), *item, params.at(0)));
    if (equal) return JinjaValue(at);
  }
  return jinja_error("the value is not in the {}", self.type_name());
}

Result<JinjaValue> copy(JinjaRender& /*render*/, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("copy", args));
  return self;  // immutable, so it is its own copy
}

Result<JinjaValue> dict_get(JinjaRender& /*render*/, const JinjaValue& self,
                            const JinjaArgs& args) {
  if (!args.named.empty()) return jinja_error("dict.get() takes no keyword arguments");
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("get", args, {"key", "default"}, 1));
  PENSTOCK_TRY(hashable(params.at(0)));
  const JinjaValue* found = self.as_dict()->find(params.at(0));
  return found != nullptr ? *found : params.value_or(1, JinjaValue());
}

Result<JinjaValue> dict_keys(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("keys", args));
  JinjaValues keys;
  for (const auto& entry : self.as_dict()->entries) keys.push_back(entry.first);
  return jinja_sequence(render.meter(), JinjaSequenceKind::kDictKeys, std::move(keys));
}

Result<JinjaValue> dict_values(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("values", args));
  JinjaValues values;
  for (const auto& entry : self.as_dict()->entries) values.push_back(entry.second);
  return jinja_sequence(render.meter(), JinjaSequenceKind::kDictValues, std::move(values));
}

Result<JinjaValue> dict_items(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("items", args));
  JinjaValues items;
  for (const auto& [key, value] : self.as_dict()->entries) {
    items.push_back(jinja_tuple(render.meter(), {key, value}));
  }
  return jinja_sequence(render.meter(), JinjaSequenceKind::kDictItems, std::move(items));
}

Result<JinjaValue> float_is_integer(JinjaRender& /*render*/, const JinjaValue& self,
                                    const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("is_integer", args));
  const double value = *self.as_float();
  return JinjaValue(std::isfinite(value) && std::floor(value) == value);
}

Result<JinjaValue> int_bit_length(JinjaRender& /*render*/, const JinjaValue& self,
                                  const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("bit_length", args));
  JinjaInt left = self.integral().value_or(0);
  JinjaInt bits = 0;
  for (; left != 0; left /= 2) ++bits;
  return JinjaValue(bits);
}

constexpr MethodEntry kSequenceMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr MethodEntry kDictMethods[] = {{"get", dict_get},
                                        {"keys", dict_keys},
                                        {"values", dict_values},
                                        {"items", dict_items},
                                        {"copy", copy}};

template <size_t n>
JinjaMethod find_in(const MethodEntry (&methods)[n], std::string_view name) {
  for (const MethodEntry& entry : methods) {
    if (entry.name == name) return entry.method;
  }
  return nullptr;
}

JinjaMethod method_of(const JinjaValue& value, std::string_view name) {
  if (value.is_text()) return find_text_method(name);
  if (value.is_dict()) return find_in(kDictMethods, name);
  if (value.is_list() && name == "copy") return copy;
  if (value.is_list() || value.is_tuple() || value.as_range() != nullptr) {
    return find_in(kSequenceMethods, name);
  }
  if (value.is_float() && name == "is_integer") return float_is_integer;
  if (value.integral() && name == "bit_length") return int_bit_length;
  return nullptr;
}

// Attributes that are plain values.
std::optional<JinjaValue> plain_attribute(const JinjaValue& value, std::string_view name) {
  if (value.is_number()) {
    const auto integer = value.integral();
    if (name == "real") return integer ? JinjaValue(*integer) : value;
    if (name == "imag") return integer ? JinjaValue(JinjaInt{0}) : JinjaValue(0.0);
    if (integer && name == "numerator") return JinjaValue(*integer);
    if (integer && name == "denominator") return JinjaValue(JinjaInt{1});
  }
  if (const JinjaRange* range = value.as_range()) {
    if (name == "start") return JinjaValue(range->start);
    if (name == "stop") return JinjaValue(range->stop);
    if (name == "step") return JinjaValue(range->step);
  }
  const JinjaSequence* sequence = value.as_sequence();
  if (sequence != nullptr && sequence->kind == JinjaSequenceKind::kGroup) {
    if (name == "grouper") return sequence->items[0];
    if (name == "list") return sequence->items[1];
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<JinjaValue>> find_method(JinjaRender& render, const JinjaValue& value,
                                              std::string_view name) {
  if (const JinjaMethod method = method_of(value, name)) {
    // It will look at the whole of its text.
    const auto text = text_of(value);
    PENSTOCK_TRY(render.meter().step_characters(text ? text->size() : 0));
    return JinjaValue(JinjaValue::Object(std::make_shared<JinjaBoundMethod>(method, value)));
  }
  return plain_attribute(value, name);
}

bool is_mutating_method(const JinjaValue& value, std::string_view name) {
  constexpr std::string_view kOfLists[] = {"append", "clear", "pop",    "reverse",
                                           "insert", "sort",  "extend", "remove"};
  constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is_list()) return std::ranges::find(kOfLists, name) != std::end(kOfLists);
  if (value.is_dict()) return std::ranges::find(kOfDicts, name) != std::end(kOfDicts);
  return false;
}

}  // namespace penstock
