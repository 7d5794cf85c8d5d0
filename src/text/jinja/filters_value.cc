// Filters of single values: numbers, defaults, attributes, JSON.
#include <cmath>
#include <cstdio>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/json.h"
#include "text/jinja/lexer.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace penstock {
namespace {

std::unexpected<Error> beyond() { return jinja_error("an integer beyond 128 bits"); }

// Towards zero; nothing for NaN.
Result<std::optional<JinjaValue>> truncated(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (!(std::fabs(value) < 0x1p127)) {
    if (std::isinf(value)) return jinja_error("cannot convert float infinity to integer");
    return beyond();
  }
  return JinjaValue(static_cast<JinjaInt>(std::trunc(value)));
}

Result<JinjaValue> int_of_text(std::string_view text, int base, const JinjaValue& otherwise) {
  bool overflow = false;
  if (const auto integer = py_parse_integer(text, base, overflow)) return JinjaValue(*integer);
  if (overflow) return beyond();
  const auto real = py_parse_float(text);
  if (!real || std::isinf(*real)) return otherwise;
  PENSTOCK_ASSIGN(const auto whole, truncated(*real));
  return whole.value_or(otherwise);
}

Result<JinjaValue> filter_int(JinjaRender& /*render*/, const JinjaValue& value,
                              const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("int", args, {"default", "base"}));
  JinjaValue otherwise = params.value_or(0, JinjaValue(JinjaInt{0}));
  PENSTOCK_ASSIGN(const JinjaInt base, params.integer_or(1, 10));
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const auto text = text_of(value)) {
    // A base that Python does not have is a ValueError there, so that the text is read as a float.
    const bool is_base = base == 0 || (base >= 2 && base <= 36);
    return int_of_text(*text, is_base ? static_cast<int>(base) : 1, otherwise);
  }
  if (const auto integer = value.integral()) return JinjaValue(*integer);
  if (!value.is_float()) return otherwise;
  PENSTOCK_ASSIGN(const auto whole, truncated(*value.as_float()));
  return whole.value_or(otherwise);
}

Result<JinjaValue> filter_float(JinjaRender& /*render*/, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("float", args, {"default"}));
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const auto text = text_of(value)) {
    if (const auto real = py_parse_float(*text)) return JinjaValue(*real);
  } else if (const auto number = value.number()) {
    return JinjaValue(*number);
  }
  return params.value_or(0, JinjaValue(0.0));
}

Result<JinjaValue> filter_abs(JinjaRender& /*render*/, const JinjaValue& value,
                              const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("abs", args));
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const double* real = value.as_float()) return JinjaValue(std::fabs(*real));
  const auto integer = value.integral();
  if (!integer) return jinja_error("bad operand type for abs(): '{}'", value.type_name());
  return *integer < 0 ? jinja_negative(value) : Result<JinjaValue>(JinjaValue(*integer));
}

// To the nearest multiple of 10^-digits, ties to even, judged by the exact value as Python does.
double rounded(double value, int digits) {
  constexpr int kMaxDigits = 330;  // no double has digits beyond these
  if (!std::isfinite(value) || digits > kMaxDigits) return value;
  if (digits < -310) return std::copysign(0.0, value);
  char buffer[700];
  if (digits >= 0) {
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
    return std::strtod(buffer, nullptr);
  }
  // The number of digits that stay in front; with none of them the value is at most half a unit or
  // not.
  std::snprintf(buffer, sizeof buffer, "%.0e", value);
  const int exponent = static_cast<int>(std::floor(std::log10(std::fabs(value) + (value == 0))));
  if (exponent + digits < 0) {
    const double unit = std::pow(10.0, -digits);
    return std::fabs(value) > unit / 2 ? std::copysign(unit, value) : std::copysign(0.0, value);
  }
  std::snprintf(buffer, sizeof buffer, "%.*e", exponent + digits, value);
  return std::strtod(buffer, nullptr);
}

Result<JinjaValue> rounded_integer(JinjaInt value, JinjaInt digits) {
  if (digits >= 0) return JinjaValue(value);
  JinjaInt unit = 1;
  for (; digits < 0; ++digits) {
    if (__builtin_mul_overflow(unit, JinjaInt{10}, &unit)) return JinjaValue(JinjaInt{0});
  }
  JinjaInt below = value / unit * unit;
  if (below > value && __builtin_sub_overflow(below, unit, &below)) return beyond();
  const JinjaInt over = value - below;
  const bool up = over > unit - over || (over == unit - over && below / unit % 2 != 0);
  if (up && __builtin_add_overflow(below, unit, &below)) return beyond();
  return JinjaValue(below);
}

Result<JinjaValue> filter_round(JinjaRender& render, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("round", args, {"precision", "method"}));
  PENSTOCK_ASSIGN(const std::string_view method, params.text_or(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return jinja_error("method must be common, ceil or floor");
  }
  if (value.is_undefined()) return jinja_error("{}", value.why());
  const auto number = value.number();
  if (!number) return jinja_error("type {} doesn't define __round__ method", value.type_name());
  const bool to_integer = params.get(0) != nullptr && params.at(0).is_none();
  PENSTOCK_ASSIGN(const JinjaInt precision,
                  to_integer ? Result<JinjaInt>(0) : params.integer_or(0, 0));
  const auto digits = static_cast<int>(std::clamp<JinjaInt>(precision, -1000, 1000));
  if (method == "common") {
    if (const auto integer = value.integral()) return rounded_integer(*integer, digits);
    if (!to_integer) return JinjaValue(rounded(*number, digits));
    PENSTOCK_ASSIGN(const auto whole, truncated(rounded(*number, 0)));
    if (!whole) return jinja_error("cannot convert float NaN to integer");
    return *whole;
  }
  // func(value * 10**precision) / 10**precision, in Python's arithmetic.
  JinjaMeter& meter = render.meter();
  PENSTOCK_ASSIGN(
      const JinjaValue unit,
      jinja_binary(meter, JinjaOperator::kPower, JinjaValue(JinjaInt{10}), JinjaValue(precision)));
  PENSTOCK_ASSIGN(const JinjaValue scaled,
                  jinja_binary(meter, JinjaOperator::kMultiply, value, unit));
  JinjaValue whole = scaled;
  if (const double* real = scaled.as_float()) {
    PENSTOCK_ASSIGN(const auto cut,
                    truncated(method == "ceil" ? std::ceil(*real) : std::floor(*real)));
    if (!cut) return jinja_error("cannot convert float NaN to integer");
    whole = *cut;
  }
  return jinja_binary(meter, JinjaOperator::kDivide, whole, unit);
}

Result<JinjaValue> filter_filesizeformat(JinjaRender& render, const JinjaValue& value,
                                         const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("filesizeformat", args, {"binary"}));
  const auto text = text_of(value);
  const auto number = text ? py_parse_float(*text) : value.number();
  if (!number) return jinja_error("filesizeformat: '{}' is no number", value.type_name());
  const bool binary = params.truth_or(0, false);
  const double base = binary ? 1024 : 1000;
  std::string out;
  if (*number == 1) {
    out = "1 Byte";
  } else if (*number < base) {
    out = fmt::format("{:.0f} Bytes", std::trunc(*number) + 0.0);
  } else {
    constexpr std::string_view kPrefixes = "kMGTPEZY";
    size_t i = 0;
    double unit = base * base;
    while (i + 1 < kPrefixes.size() && !(*number < unit)) {
      unit *= base;
      ++i;
    }
    const std::string prefix = binary ? fmt::format("{}iB", i == 0 ? 'K' : kPrefixes[i])
                                      : fmt::format("{}B", kPrefixes[i]);
    out = fmt::format("{:.1f} {}", base * *number / unit, prefix);
  }
  return jinja_text(render.meter(), std::move(out));
}

Result<JinjaValue> filter_default(JinjaRender& render, const JinjaValue& value,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("default", args, {"default_value", "boolean"}));
  const bool is_missing = value.is_undefined() || (params.truth_or(1, false) && !value.truth());
  if (!is_missing) return value;
  return params.value_or(0, jinja_text(render.meter(), ""));
}

// Attributes only, never items.
Result<JinjaValue> filter_attr(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("attr", args, {"name"}, 1));
  PENSTOCK_ASSIGN(const std::string_view name, params.text(0));
  if (value.is_undefined()) return jinja_error("{}", value.why());
  PENSTOCK_ASSIGN(auto found, find_attribute(render, value, name));
  if (found) return *std::move(found);
  return JinjaValue::undefined(
      fmt::format("'{} object' has no attribute {}", value.type_name(), py_quoted(name)));
}

Result<JinjaJsonStyle> json_style(JinjaMeter& meter, const JinjaParams& params) {
  JinjaJsonStyle style;
  style.ascii = params.truth_or(0, false);
  if (const JinjaValue* indent = params.get(1); indent != nullptr && !indent->is_none()) {
    if (const auto text = text_of(*indent)) {
      style.indent = std::string(*text);
    } else {
      PENSTOCK_ASSIGN(const JinjaInt n, params.integer_or(1, 0));
      const auto n_blanks = static_cast<size_t>(std::clamp<JinjaInt>(n, 0, JinjaInt{SIZE_MAX}));
      PENSTOCK_TRY(meter.has_room(n_blanks));
      style.indent = std::string(n_blanks, ' ');
    }
  }
  if (const JinjaValue* separators = params.get(2);
      separators != nullptr && !separators->is_none()) {
    const JinjaSequence* pair = separators->as_sequence();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text()) {
      return jinja_error("tojson: separators must be a pair of str");
    }
    style.item_separator = pair->items[0].as_text()->bytes;
    style.key_separator = pair->items[1].as_text()->bytes;
  }
  style.sort_keys = params.truth_or(3, false);
  return style;
}

// transformers' own: no HTML escaping, and more to choose from.
Result<JinjaValue> filter_tojson(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_ASSIGN(
      const JinjaParams params,
      JinjaParams::bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  PENSTOCK_ASSIGN(const JinjaJsonStyle style, json_style(render.meter(), params));
  PENSTOCK_ASSIGN(std::string json, jinja_to_json(render.meter(), value, style));
  return jinja_text(render.meter(), std::move(json));
}

constexpr JinjaFilterEntry kFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"d", filter_default},
    {"default", filter_default},
    {"filesizeformat", filter_filesizeformat},
    {"float", filter_float},
    {"int", filter_int},
    {"round", filter_round},
    {"tojson", filter_tojson},
};

}  // namespace

JinjaFilter find_value_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace penstock
