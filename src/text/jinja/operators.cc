#include "text/jinja/operators.h"

#include <cmath>

#include "base/html.h"
#include "text/jinja/format.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

std::unexpected<Error> unsupported(JinjaOperator op, const JinjaValue& a, const JinjaValue& b) {
  return jinja_error("unsupported operand type(s) for {}: '{}' and '{}'",
                     kSymbols[static_cast<size_t>(op)], a.type_name(), b.type_name());
}

std::unexpected<Error> overflow() { return jinja_error("an integer beyond 128 bits"); }

// Python's // and % round towards minus infinity. The divisor is not zero.
JinjaInt floor_quotient(JinjaInt a, JinjaInt b) {
  const JinjaInt quotient = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? quotient - 1 : quotient;
}

double floor_remainder(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0.0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double floor_quotient(double a, double b) {
  const double quotient = (a - floor_remainder(a, b)) / b;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1.0 : below;
}

Result<JinjaInt> integer_power(JinjaInt base, JinjaInt exponent) {
  JinjaInt result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return result;
}

Result<JinjaValue> float_power(double base, double exponent) {
  if (base == 0.0 && exponent < 0.0) {
    return jinja_error("0.0 cannot be raised to a negative power");
  }
  if (base < 0.0 && exponent != std::floor(exponent)) {
    return jinja_error("a negative number to a fractional power is complex");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && !std::isinf(base) && !std::isinf(exponent)) {
    return jinja_error("the result of ** is too large for a float");
  }
  return JinjaValue(result);
}

Result<JinjaValue> integer_operation(JinjaOperator op, JinjaInt a, JinjaInt b) {
  JinjaInt result = 0;
  switch (op) {
    case JinjaOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return JinjaValue(result);
    case JinjaOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return JinjaValue(result);
    case JinjaOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return JinjaValue(result);
    case JinjaOperator::kPower: {
      if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
      PENSTOCK_ASSIGN(result, integer_power(a, b));
      return JinjaValue(result);
    }
    default:
      break;
  }
  if (b == 0) {
    return jinja_error("{}", op == JinjaOperator::kDivide ? "division by zero"
                                                          : "integer division or modulo by zero");
  }
  // The quotient of the least integer and -1, and the sign change inside a % b, leave the range.
  if (b == -1 && __builtin_sub_overflow(JinjaInt{0}, a, &result)) return overflow();
  if (op == JinjaOperator::kDivide) {
    return JinjaValue(static_cast<double>(a) / static_cast<double>(b));
  }
  const JinjaInt quotient = floor_quotient(a, b);
  return JinjaValue(op == JinjaOperator::kFloorDivide ? quotient : a - quotient * b);
}

Result<JinjaValue> float_operation(JinjaOperator op, double a, double b) {
  switch (op) {
    case JinjaOperator::kAdd:
      return JinjaValue(a + b);
    case JinjaOperator::kSubtract:
      return JinjaValue(a - b);
    case JinjaOperator::kMultiply:
      return JinjaValue(a * b);
    case JinjaOperator::kPower:
      return float_power(a, b);
    default:
      break;
  }
  if (b == 0.0) return jinja_error("float division or modulo by zero");
  if (op == JinjaOperator::kDivide) return JinjaValue(a / b);
  return JinjaValue(op == JinjaOperator::kFloorDivide ? floor_quotient(a, b)
                                                      : floor_remainder(a, b));
}

// The kind of what is made from parts of `sequence`: a group of `groupby` gives plain tuples.
JinjaSequenceKind plain_kind(const JinjaSequence& sequence) {
  return sequence.kind == JinjaSequenceKind::kGroup ? JinjaSequenceKind::kTuple : sequence.kind;
}

Result<JinjaValue> repeated(JinjaMeter& meter, const JinjaValue& value, JinjaInt times) {
  const JinjaText* text = value.as_text();
  const JinjaSequence* sequence = value.as_sequence();
  const size_t size = text != nullptr ? text->bytes.size() : sequence->items.size();
  if (times <= 0 || size == 0) times = 0;
  if (times > JinjaInt{SIZE_MAX} / static_cast<JinjaInt>(std::max<size_t>(size, 1))) {
    times = JinjaInt{SIZE_MAX} / static_cast<JinjaInt>(size);
  }
  const auto count = static_cast<size_t>(times);
  PENSTOCK_TRY(meter.has_room(count * size, text != nullptr ? 1 : sizeof(JinjaValue)));
  if (text != nullptr) {
    std::string bytes;
    bytes.reserve(count * size);
    for (size_t i = 0; i < count; ++i) bytes += text->bytes;
    return jinja_text(meter, std::move(bytes), text->safe);
  }
  JinjaValues items;
  items.reserve(count * size);
  for (size_t i = 0; i < count; ++i) {
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  }
  return jinja_sequence(meter, plain_kind(*sequence), std::move(items));
}

bool is_repeatable(const JinjaValue& value) {
  return value.is_text() || value.is_list() || value.is_tuple();
}

// Text plus text; where either is marked safe the other is escaped.
Result<JinjaValue> concatenated(JinjaMeter& meter, const JinjaText& a, const JinjaText& b) {
  const bool safe = a.safe || b.safe;
  std::string bytes = safe && !a.safe ? html_escaped(a.bytes) : a.bytes;
  bytes += safe && !b.safe ? html_escaped(b.bytes) : b.bytes;
  return jinja_text(meter, std::move(bytes), safe);
}

Result<JinjaValue> added(JinjaMeter& meter, const JinjaValue& a, const JinjaValue& b) {
  if (a.is_text() && b.is_text()) return concatenated(meter, *a.as_text(), *b.as_text());
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const JinjaValues& first = a.as_sequence()->items;
    const JinjaValues& second = b.as_sequence()->items;
    PENSTOCK_TRY(meter.has_room(first.size() + second.size(), sizeof(JinjaValue)));
    JinjaValues items;
    items.reserve(first.size() + second.size());
    items.insert(items.end(), first.begin(), first.end());
    items.insert(items.end(), second.begin(), second.end());
    return jinja_sequence(meter, plain_kind(*a.as_sequence()), std::move(items));
  }
  if (a.is_text() || a.is_list() || a.is_tuple()) {
    const std::string_view kind = a.is_text() ? "str" : a.type_name();
    return jinja_error("can only concatenate {} (not \"{}\") to {}", kind, b.type_name(), kind);
  }
  return unsupported(JinjaOperator::kAdd, a, b);
}

// A slice's bounds, clamped to [0, length] (to [-1, length - 1] when going backwards), and how many
// items.
struct SliceBounds {
  JinjaInt start, step;
  size_t count;
};

Result<SliceBounds> slice_bounds(size_t size, const JinjaValue& start, const JinjaValue& stop,
                                 const JinjaValue& step) {
  for (const JinjaValue* bound : {&start, &stop, &step}) {
    if (bound->is_undefined()) return jinja_error("{}", bound->why());
    if (!bound->is_none() && !bound->integral()) {
      return jinja_error("slice indices must be integers or None");
    }
  }
  const auto length = static_cast<JinjaInt>(size);
  const JinjaInt by = step.integral().value_or(1);
  if (by == 0) return jinja_error("slice step cannot be zero");
  const JinjaInt lowest = by < 0 ? -1 : 0;
  const JinjaInt highest = by < 0 ? length - 1 : length;
  const auto clamped = [&](const JinjaValue& bound, JinjaInt otherwise) {
    if (bound.is_none()) return otherwise;
    JinjaInt at = *bound.integral();
    if (at < 0) at = at < -length ? lowest : at + length;
    return std::clamp(at, lowest, std::max(lowest, highest));
  };
  const JinjaInt first = clamped(start, by < 0 ? highest : lowest);
  const JinjaInt last = clamped(stop, by < 0 ? lowest : highest);
  const JinjaInt span = by < 0 ? first - last : last - first;
  if (span <= 0) return SliceBounds{first, by, 0};
  // The step may be as large as an integer gets, so its sign is not changed.
  const JinjaInt extra = by < 0 ? (span - 1) / -std::max(by, -length - 1) : (span - 1) / by;
  return SliceBounds{first, by, static_cast<size_t>(extra) + 1};
}

JinjaValue sliced_text(JinjaMeter& meter, const JinjaText& text, const SliceBounds& bounds) {
  const auto start = static_cast<size_t>(std::max<JinjaInt>(bounds.start, 0));
  if (bounds.count == 0) return jinja_text(meter, "", text.safe);
  if (bounds.step == 1) {
    const size_t begin = text.is_ascii() ? start : py_byte_of_character(text.bytes, start);
    const std::string_view tail = std::string_view(text.bytes).substr(begin);
    const size_t size = text.is_ascii() ? bounds.count : py_byte_of_character(tail, bounds.count);
    return jinja_text(meter, std::string(tail.substr(0, size)), text.safe);
  }
  std::vector<size_t> begins;  // byte at which each character begins
  for (size_t at = 0; at < text.bytes.size();) {
    begins.push_back(at);
    py_next_character(text.bytes, at);
  }
  begins.push_back(text.bytes.size());
  std::string out;
  JinjaInt at = bounds.start;
  for (size_t i = 0; i < bounds.count; ++i) {
    const auto index = static_cast<size_t>(at);
    out += text.bytes.substr(begins[index], begins[index + 1] - begins[index]);
    if (i + 1 < bounds.count) at += bounds.step;
  }
  return jinja_text(meter, std::move(out), text.safe);
}

JinjaValue sliced_range(const JinjaRange& range, const SliceBounds& bounds) {
  JinjaRange part;
  part.length = bounds.count;
  part.start = bounds.count == 0 ? range.start : range.start + bounds.start * range.step;
  part.step = bounds.count < 2 ? 1 : range.step * bounds.step;
  part.stop = part.at(part.length);
  return JinjaValue(std::make_shared<const JinjaRange>(part));
}

// The place of an index counted from either end, if it is inside.
std::optional<size_t> place_of(JinjaInt index, size_t length) {
  if (index < 0) index += static_cast<JinjaInt>(length);
  if (index < 0 || index >= static_cast<JinjaInt>(length)) return std::nullopt;
  return static_cast<size_t>(index);
}

}  // namespace

Result<JinjaValue> jinja_binary(JinjaMeter& meter, JinjaOperator op, const JinjaValue& a,
                                const JinjaValue& b) {
  const JinjaText* text = a.as_text();
  if (op == JinjaOperator::kModulo && text != nullptr) {
    PENSTOCK_ASSIGN(std::string formatted, percent_formatted(meter, *text, b));
    return jinja_text(meter, std::move(formatted), text->safe);
  }
  if (a.is_undefined()) return jinja_error("{}", a.why());
  if (b.is_undefined()) return jinja_error("{}", b.why());
  const auto integer_a = a.integral();
  const auto integer_b = b.integral();
  if (integer_a && integer_b) return integer_operation(op, *integer_a, *integer_b);
  const auto real_a = a.number();
  const auto real_b = b.number();
  if (real_a && real_b) return float_operation(op, *real_a, *real_b);
  if (op == JinjaOperator::kAdd) return added(meter, a, b);
  if (op == JinjaOperator::kMultiply) {
    if (is_repeatable(a) && integer_b) return repeated(meter, a, *integer_b);
    if (is_repeatable(b) && integer_a) return repeated(meter, b, *integer_a);
  }
  return unsupported(op, a, b);
}

Result<JinjaValue> jinja_negative(const JinjaValue& value) {
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const double* real = value.as_float()) return JinjaValue(-*real);
  const auto integer = value.integral();
  if (!integer) return jinja_error("bad operand type for unary -: '{}'", value.type_name());
  JinjaInt result = 0;
  if (__builtin_sub_overflow(JinjaInt{0}, *integer, &result)) return overflow();
  return JinjaValue(result);
}

Result<JinjaValue> jinja_positive(const JinjaValue& value) {
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const auto integer = value.integral()) return JinjaValue(*integer);
  if (value.is_float()) return value;
  return jinja_error("bad operand type for unary +: '{}'", value.type_name());
}

Result<std::optional<JinjaValue>> jinja_item(JinjaMeter& meter, const JinjaValue& value,
                                             const JinjaValue& index) {
  if (const JinjaDict* dict = value.as_dict()) {
    if (!hashable(index)) return std::nullopt;
    const JinjaValue* found = dict->find(index);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  const auto at = index.integral();
  if (!at) return std::nullopt;
  if (const JinjaText* text = value.as_text()) {
    const auto place = place_of(*at, text->length);
    if (!place) return std::nullopt;
    PENSTOCK_TRY(meter.step_characters(text->is_ascii() ? 0 : text->bytes.size()));
    return sliced_text(meter, *text, {static_cast<JinjaInt>(*place), 1, 1});
  }
  if (value.is_list() || value.is_tuple()) {
    const JinjaValues& items = value.as_sequence()->items;
    const auto place = place_of(*at, items.size());
    return place ? std::optional(items[*place]) : std::nullopt;
  }
  if (const JinjaRange* range = value.as_range()) {
    const auto place = place_of(*at, range->length);
    return place ? std::optional(JinjaValue(range->at(*place))) : std::nullopt;
  }
  return std::nullopt;
}

Result<JinjaValue> jinja_slice(JinjaMeter& meter, const JinjaValue& value, const JinjaValue& start,
                               const JinjaValue& stop, const JinjaValue& step) {
  if (value.is_undefined()) return jinja_error("{}", value.why());
  if (const JinjaText* text = value.as_text()) {
    PENSTOCK_TRY(meter.step_characters(text->bytes.size()));
    PENSTOCK_ASSIGN(const SliceBounds bounds, slice_bounds(text->length, start, stop, step));
    return sliced_text(meter, *text, bounds);
  }
  if (value.is_list() || value.is_tuple()) {
    const JinjaSequence& sequence = *value.as_sequence();
    PENSTOCK_ASSIGN(const SliceBounds bounds,
                    slice_bounds(sequence.items.size(), start, stop, step));
    PENSTOCK_TRY(meter.step(bounds.count));
    JinjaValues items;
    items.reserve(bounds.count);
    for (size_t i = 0; i < bounds.count; ++i) {
      const JinjaInt at = bounds.start + static_cast<JinjaInt>(i) * bounds.step;
      items.push_back(sequence.items[static_cast<size_t>(at)]);
    }
    return jinja_sequence(meter, plain_kind(sequence), std::move(items));
  }
  if (const JinjaRange* range = value.as_range()) {
    PENSTOCK_ASSIGN(const SliceBounds bounds, slice_bounds(range->length, start, stop, step));
    return sliced_range(*range, bounds);
  }
  if (value.is_dict()) return jinja_error("unhashable type: 'slice'");
  return jinja_error("'{}' object is not subscriptable", value.type_name());
}

Result<JinjaValue> jinja_escaped(JinjaMeter& meter, const JinjaValue& value) {
  const JinjaText* text = value.as_text();
  if (text != nullptr && text->safe) return value;
  PENSTOCK_ASSIGN(const std::string plain, jinja_str(meter, value));
  PENSTOCK_TRY(meter.step_characters(plain.size()));
  return jinja_text(meter, html_escaped(plain), true);
}

}  // namespace penstock
