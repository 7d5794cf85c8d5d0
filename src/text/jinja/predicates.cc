#include "text/jinja/predicates.h"

#include "text/jinja/args.h"
#include "text/jinja/compare.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

// value % divisor == remainder
Result<bool> leaves(JinjaRender& render, const JinjaValue& value, const JinjaValue& divisor,
                    JinjaInt remainder) {
  PENSTOCK_ASSIGN(const JinjaValue left,
                  jinja_binary(render.meter(), JinjaOperator::kModulo, value, divisor));
  return jinja_equal(render.meter(), left, JinjaValue(remainder));
}

Result<bool> test_odd(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("odd", args));
  return leaves(render, value, JinjaValue(JinjaInt{2}), 1);
}

Result<bool> test_even(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("even", args));
  return leaves(render, value, JinjaValue(JinjaInt{2}), 0);
}

Result<bool> test_divisibleby(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("divisibleby", args, {"num"}, 1));
  return leaves(render, value, params.at(0), 0);
}

// A test of the value alone.
template <bool (*holds)(const JinjaValue&)>
Result<bool> plain(JinjaRender& /*render*/, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("the test", args));
  return holds(value);
}

bool is_defined(const JinjaValue& value) { return !value.is_undefined(); }
bool is_undefined(const JinjaValue& value) { return value.is_undefined(); }
bool is_none(const JinjaValue& value) { return value.is_none(); }
bool is_boolean(const JinjaValue& value) { return value.is_bool(); }
bool is_true(const JinjaValue& value) { return value.is_bool() && *value.as_bool(); }
bool is_false(const JinjaValue& value) { return value.is_bool() && !*value.as_bool(); }
bool is_integer(const JinjaValue& value) { return value.is_int(); }
bool is_float(const JinjaValue& value) { return value.is_float(); }
bool is_number(const JinjaValue& value) { return value.is_number(); }
bool is_string(const JinjaValue& value) { return value.is_text(); }
bool is_mapping(const JinjaValue& value) { return value.is_dict(); }
bool is_escaped(const JinjaValue& value) { return value.is_text() && value.as_text()->safe; }

// Has a length and items by index, in Python's eyes: undefined values do, views of dicts do not.
bool is_sequence(const JinjaValue& value) {
  return value.is_undefined() || value.is_text() || value.is_list() || value.is_tuple() ||
         value.is_dict() || value.as_range() != nullptr;
}

bool is_callable(const JinjaValue& value) {
  const JinjaObject* object = value.as_object();
  return value.is_undefined() || (object != nullptr && object->is_callable());
}

// str.islower and str.isupper: some cased characters, all of this case.
Result<bool> all_cased(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args,
                       bool (*is_this_case)(char32_t)) {
  PENSTOCK_TRY(takes_nothing("the test", args));
  PENSTOCK_ASSIGN(const std::string text, jinja_str(render.meter(), value));
  return py_all_cased(text, is_this_case);
}

Result<bool> test_lower(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  return all_cased(render, value, args, py_is_lowercase);
}

Result<bool> test_upper(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  return all_cased(render, value, args, py_is_uppercase);
}

Result<bool> test_sameas(JinjaRender& /*render*/, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("sameas", args, {"other"}, 1));
  return value.same_as(params.at(0));
}

Result<bool> test_in(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("in", args, {"seq"}, 1));
  return jinja_contains(render.meter(), params.at(0), value);
}

Result<bool> test_filter(JinjaRender& /*render*/, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("filter", args));
  const auto name = text_of(value);
  return name && find_filter(*name) != nullptr;
}

Result<bool> test_test(JinjaRender& /*render*/, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("test", args));
  const auto name = text_of(value);
  return name && find_test(*name) != nullptr;
}

Result<bool> test_eq(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("eq", args, {"other"}, 1));
  return jinja_equal(render.meter(), value, params.at(0));
}

Result<bool> test_ne(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const bool equal, test_eq(render, value, args));
  return !equal;
}

template <JinjaOrder order>
Result<bool> test_order(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("the test", args, {"other"}, 1));
  return jinja_ordered(render.meter(), order, value, params.at(0));
}

constexpr std::pair<std::string_view, JinjaPredicate> kTests[] = {
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", test_divisibleby},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"==", test_eq},
    {"escaped", plain<is_escaped>},
    {"even", test_even},
    {"false", plain<is_false>},
    {"filter", test_filter},
    {"float", plain<is_float>},
    {"ge", test_order<JinjaOrder::kGreaterEqual>},
    {">=", test_order<JinjaOrder::kGreaterEqual>},
    {"gt", test_order<JinjaOrder::kGreater>},
    {"greaterthan", test_order<JinjaOrder::kGreater>},
    {">", test_order<JinjaOrder::kGreater>},
    {"in", test_in},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", test_order<JinjaOrder::kLessEqual>},
    {"<=", test_order<JinjaOrder::kLessEqual>},
    {"lower", test_lower},
    {"lt", test_order<JinjaOrder::kLess>},
    {"lessthan", test_order<JinjaOrder::kLess>},
    {"<", test_order<JinjaOrder::kLess>},
    {"mapping", plain<is_mapping>},
    {"ne", test_ne},
    {"!=", test_ne},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", test_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", test_upper},
};

}  // namespace

JinjaPredicate find_test(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

std::string unknown_test(std::string_view name) {
  return fmt::format("No test named {}.", py_quoted(name));
}

}  // namespace penstock
