#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/printing.h"
#include "text/jinja/sort.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return py_float(value);
}

void append_unit(std::string& out, uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

void append_json_character(std::string& out, char32_t c, bool ascii) {
  switch (c) {
    case U'"':
      out += "\\\"";
      return;
    case U'\\':
      out += "\\\\";
      return;
    case U'\n':
      out += "\\n";
      return;
    case U'\r':
      out += "\\r";
      return;
    case U'\t':
      out += "\\t";
      return;
    case U'\b':
      out += "\\b";
      return;
    case U'\f':
      out += "\\f";
      return;
    default:
      break;
  }
  const auto code = static_cast<uint32_t>(c);
  if (code >= 0x20 && (!ascii || code <= 0x7e)) {
    py_append_character(out, c);
  } else if (code < 0x10000) {
    append_unit(out, code);
  } else {
    append_unit(out, 0xd800 + ((code - 0x10000) >> 10));
    append_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
  }
}

class JsonWriter {
 public:
  JsonWriter(JinjaMeter& meter, const JinjaJsonStyle& style)
      : meter_(meter),
        style_(style),
        item_separator_(style.item_separator.value_or(style.indent ? "," : ", ")) {}

  Result<void> write(const JinjaValue& value);
  std::string take() { return std::move(out_); }

 private:
  Result<void> write_text(std::string_view text);
  Result<void> write_array(const JinjaValues& items);
  Result<void> write_object(const JinjaDict& dict);
  Result<void> write_key(const JinjaValue& key);
  void start_line();

  JinjaMeter& meter_;
  const JinjaJsonStyle& style_;
  std::string item_separator_;
  std::string out_;
  size_t level_ = 0;
};

Result<void> JsonWriter::write(const JinjaValue& value) {
  PENSTOCK_TRY(meter_.step());
  PENSTOCK_TRY(meter_.has_room(out_.size()));
  if (const auto text = text_of(value)) return write_text(*text);
  if (value.is_list() || value.is_tuple()) return write_array(value.as_sequence()->items);
  if (const JinjaDict* dict = value.as_dict()) return write_object(*dict);
  if (value.is_none()) {
    out_ += "null";
  } else if (const bool* flag = value.as_bool()) {
    out_ += *flag ? "true" : "false";
  } else if (const JinjaInt* integer = value.as_int()) {
    out_ += py_integer(*integer);
  } else if (const double* real = value.as_float()) {
    out_ += json_float(*real);
  } else {
    return jinja_error("Object of type {} is not JSON serializable", value.type_name());
  }
  return {};
}

Result<void> JsonWriter::write_text(std::string_view text) {
  PENSTOCK_TRY(meter_.step_characters(text.size()));
  out_ += '"';
  for (size_t at = 0; at < text.size();) {
    append_json_character(out_, py_next_character(text, at), style_.ascii);
  }
  out_ += '"';
  return {};
}

void JsonWriter::start_line() {
  if (!style_.indent) return;
  out_ += '\n';
  for (size_t i = 0; i < level_; ++i) out_ += *style_.indent;
}

Result<void> JsonWriter::write_array(const JinjaValues& items) {
  out_ += '[';
  ++level_;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += item_separator_;
    start_line();
    PENSTOCK_TRY(write(items[i]));
  }
  --level_;
  if (!items.empty()) start_line();
  out_ += ']';
  return {};
}

Result<void> JsonWriter::write_object(const JinjaDict& dict) {
  std::vector<size_t> order(dict.entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (style_.sort_keys) {
    JinjaValues keys;
    for (const auto& entry : dict.entries) keys.push_back(entry.first);
    PENSTOCK_ASSIGN(order, sorted_order(meter_, keys));
  }
  out_ += '{';
  ++level_;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [key, value] = dict.entries[order[i]];
    if (i > 0) out_ += item_separator_;
    start_line();
    PENSTOCK_TRY(write_key(key));
    out_ += style_.key_separator;
    PENSTOCK_TRY(write(value));
  }
  --level_;
  if (!dict.entries.empty()) start_line();
  out_ += '}';
  return {};
}

Result<void> JsonWriter::write_key(const JinjaValue& key) {
  if (key.is_text()) return write(key);
  if (!key.is_number() && !key.is_none()) {
    return jinja_error("keys must be str, int, float, bool or None, not {}", key.type_name());
  }
  out_ += '"';
  PENSTOCK_TRY(write(key));
  out_ += '"';
  return {};
}

// `depth` counts the values around this one: the recursion must end before the meter sees the
// result.
Result<JinjaValue> from_json(JinjaMeter& meter, const OrderedJson& json, size_t depth);

Result<JinjaValue> object_from_json(JinjaMeter& meter, const OrderedJson& json, size_t depth) {
  JinjaDict dict;
  for (const auto& [key, value] : json.items()) {
    if (!is_utf8(key)) {
      return fail(ErrorKind::kInvalidArgument, "a key that is not valid UTF-8");
    }
    PENSTOCK_ASSIGN(JinjaValue converted, from_json(meter, value, depth + 1));
    dict.set(jinja_text(meter, key), std::move(converted));
  }
  return jinja_dict(meter, std::move(dict));
}

Result<JinjaValue> array_from_json(JinjaMeter& meter, const OrderedJson& json, size_t depth) {
  JinjaValues items;
  items.reserve(json.size());
  for (const OrderedJson& item : json) {
    PENSTOCK_ASSIGN(JinjaValue converted, from_json(meter, item, depth + 1));
    items.push_back(std::move(converted));
  }
  return jinja_list(meter, std::move(items));
}

Result<JinjaValue> from_json(JinjaMeter& meter, const OrderedJson& json, size_t depth) {
  PENSTOCK_TRY(meter.step());
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return JinjaValue(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return JinjaValue(JinjaInt{json.get<int64_t>()});
    case OrderedJson::value_t::number_unsigned:
      return JinjaValue(JinjaInt{json.get<uint64_t>()});
    case OrderedJson::value_t::number_float:
      return JinjaValue(json.get<double>());
    case OrderedJson::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!is_utf8(text)) {
        return fail(ErrorKind::kInvalidArgument, "text that is not valid UTF-8");
      }
      return jinja_text(meter, text);
    }
    case OrderedJson::value_t::array:
    case OrderedJson::value_t::object:
      if (depth >= meter.limits().max_depth) {
        return fail(ErrorKind::kInvalidArgument, "nested more than {} deep",
                    meter.limits().max_depth);
      }
      return json.is_array() ? array_from_json(meter, json, depth)
                             : object_from_json(meter, json, depth);
    default:
      return JinjaValue();
  }
}

}  // namespace

Result<std::string> jinja_to_json(JinjaMeter& meter, const JinjaValue& value,
                                  const JinjaJsonStyle& style) {
  JsonWriter writer(meter, style);
  PENSTOCK_TRY(writer.write(value));
  return writer.take();
}

Result<JinjaValue> jinja_from_json(JinjaMeter& meter, const OrderedJson& json) {
  return from_json(meter, json, 0);
}

}  // namespace penstock
