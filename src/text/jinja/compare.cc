#include "text/jinja/compare.h"

#include <cmath>
#include <compare>

#include "text/jinja/iterate.h"

namespace penstock {
namespace {

std::partial_ordering compare_int_float(JinjaInt a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= 0x1p127) return std::partial_ordering::less;
  if (b < -0x1p127) return std::partial_ordering::greater;
  const double whole = std::floor(b);
  const auto c = static_cast<JinjaInt>(whole);
  if (a != c) return a < c ? std::partial_ordering::less : std::partial_ordering::greater;
  return whole < b ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

std::partial_ordering compare_numbers(const JinjaValue& a, const JinjaValue& b) {
  const auto integer_a = a.integral();
  const auto integer_b = b.integral();
  if (integer_a && integer_b) {
    if (*integer_a == *integer_b) return std::partial_ordering::equivalent;
    return *integer_a < *integer_b ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  if (integer_a) return compare_int_float(*integer_a, *b.as_float());
  if (integer_b) return 0 <=> compare_int_float(*integer_b, *a.as_float());
  return *a.as_float() <=> *b.as_float();
}

bool holds(JinjaOrder order, std::partial_ordering found) {
  switch (order) {
    case JinjaOrder::kLess:
      return found < 0;
    case JinjaOrder::kLessEqual:
      return found <= 0;
    case JinjaOrder::kGreater:
      return found > 0;
    case JinjaOrder::kGreaterEqual:
      return found >= 0;
  }
  return false;
}

std::string_view symbol(JinjaOrder order) {
  constexpr std::string_view kSymbols[] = {"<", "<=", ">", ">="};
  return kSymbols[static_cast<size_t>(order)];
}

bool same_family(const JinjaValue& a, const JinjaValue& b) {
  return (a.is_tuple() && b.is_tuple()) || a.as_sequence()->kind == b.as_sequence()->kind;
}

Result<bool> equal_items(JinjaMeter& meter, const JinjaValues& a, const JinjaValues& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(meter, a[i], b[i]));
    if (!equal) return false;
  }
  return true;
}

Result<bool> equal_dicts(JinjaMeter& meter, const JinjaDict& a, const JinjaDict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const JinjaValue* other = b.find(key);
    if (other == nullptr) return false;
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(meter, value, *other));
    if (!equal) return false;
  }
  return true;
}

Result<bool> ordered_sequences(JinjaMeter& meter, JinjaOrder order, const JinjaValues& a,
                               const JinjaValues& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(meter, a[i], b[i]));
    if (!equal) return jinja_ordered(meter, order, a[i], b[i]);
  }
  return holds(order, a.size() <=> b.size());
}

Result<bool> text_contains(JinjaMeter& meter, std::string_view text, const JinjaValue& item) {
  const auto part = text_of(item);
  if (!part) {
    return jinja_error("'in <string>' requires string as left operand, not {}", item.type_name());
  }
  PENSTOCK_TRY(meter.step_bytes(text.size()));
  return text.find(*part) != std::string_view::npos;
}

}  // namespace

Result<bool> jinja_equal(JinjaMeter& meter, const JinjaValue& a, const JinjaValue& b) {
  PENSTOCK_TRY(meter.step());
  if (const auto text = text_of(a)) {
    PENSTOCK_TRY(meter.step_bytes(text->size()));
    return text_of(b) == text;
  }
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_undefined()) return b.is_undefined();
  if (a.same_as(b)) return true;
  if (a.as_sequence() != nullptr && b.as_sequence() != nullptr) {
    if (!same_family(a, b)) return false;
    return equal_items(meter, a.as_sequence()->items, b.as_sequence()->items);
  }
  if (a.is_dict() && b.is_dict()) return equal_dicts(meter, *a.as_dict(), *b.as_dict());
  if (const JinjaRange *x = a.as_range(), *y = b.as_range(); x != nullptr && y != nullptr) {
    if (x->length != y->length) return false;
    return x->length == 0 || (x->start == y->start && (x->length == 1 || x->step == y->step));
  }
  return false;
}

Result<bool> jinja_ordered(JinjaMeter& meter, JinjaOrder order, const JinjaValue& a,
                           const JinjaValue& b) {
  PENSTOCK_TRY(meter.step());
  if (a.is_undefined()) return jinja_error("{}", a.why());
  if (b.is_undefined()) return jinja_error("{}", b.why());
  if (a.is_number() && b.is_number()) return holds(order, compare_numbers(a, b));
  // UTF-8 orders as code points do.
  const auto text_a = text_of(a);
  const auto text_b = text_of(b);
  if (text_a && text_b) return holds(order, *text_a <=> *text_b);
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    return ordered_sequences(meter, order, a.as_sequence()->items, b.as_sequence()->items);
  }
  return jinja_error("'{}' not supported between instances of '{}' and '{}'", symbol(order),
                     a.type_name(), b.type_name());
}

Result<bool> jinja_contains(JinjaMeter& meter, const JinjaValue& container,
                            const JinjaValue& item) {
  if (const auto text = text_of(container)) return text_contains(meter, *text, item);
  if (const JinjaDict* dict = container.as_dict()) {
    PENSTOCK_TRY(hashable(item));
    return dict->find(item) != nullptr;
  }
  const auto integer = item.integral();
  if (const JinjaRange* range = container.as_range(); range != nullptr && integer) {
    return range->contains(*integer);
  }
  if (!is_iterable(container)) {
    return jinja_error("argument of type '{}' is not iterable", container.type_name());
  }
  JinjaCursor cursor(meter, container);
  while (true) {
    PENSTOCK_ASSIGN(const auto next, cursor.next());
    if (!next) return false;
    PENSTOCK_ASSIGN(const bool equal, jinja_equal(meter, *next, item));
    if (equal) return true;
  }
}

bool equal_keys(const JinjaValue& a, const JinjaValue& b) {
  if (a.is_text()) return text_of(a) == text_of(b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_undefined()) return b.is_undefined();
  if (!a.is_tuple() || !b.is_tuple()) return a.same_as(b);
  const JinjaValues& x = a.as_sequence()->items;
  const JinjaValues& y = b.as_sequence()->items;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal_keys);
}

}  // namespace penstock
