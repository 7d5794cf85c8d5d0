// Filters of lists and dicts that look at all items at once.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/compare.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/sort.h"
#include "text/jinja/sort_key.h"
#include "text/jinja/unicode.h"

namespace penstock {

Result<JinjaValue> without_case(JinjaMeter& meter, const JinjaValue& value) {
  const JinjaText* text = value.as_text();
  if (text == nullptr) return value;
  PENSTOCK_TRY(meter.step_characters(text->bytes.size()));
  return jinja_text(meter, py_lower(text->bytes), text->safe);
}

Result<JinjaValue> sort_key(JinjaRender& render, const JinjaValue& item, const JinjaValue& path,
                            bool case_sensitive) {
  PENSTOCK_ASSIGN(JinjaValue key, get_path(render, item, path));
  if (case_sensitive) return key;
  return without_case(render.meter(), key);
}

namespace {

Result<JinjaValue> filter_length(JinjaRender& /*render*/, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("length", args));
  if (const auto length = length_of(value)) return JinjaValue::integer(*length);
  return jinja_error("object of type '{}' has no len()", value.type_name());
}

Result<JinjaValue> filter_list(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("list", args));
  PENSTOCK_ASSIGN(JinjaValues items, items_of(render.meter(), value));
  return jinja_list(render.meter(), std::move(items));
}

Result<JinjaValue> filter_first(JinjaRender& render, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("first", args));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), value));
  PENSTOCK_ASSIGN(auto item, cursor.next());
  if (item) return *std::move(item);
  return JinjaValue::undefined("No first item, sequence was empty.");
}

Result<JinjaValue> filter_last(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("last", args));
  const auto length = length_of(value);
  if (!length) return jinja_error("'{}' object is not reversible", value.type_name());
  if (*length == 0) return JinjaValue::undefined("No last item, sequence was empty.");
  if (const JinjaDict* dict = value.as_dict()) return dict->entries.back().first;
  if (const JinjaSequence* sequence = value.as_sequence()) return sequence->items.back();
  return get_item(render, value, JinjaValue(JinjaInt{-1}));
}

Result<JinjaValue> filter_join(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("join", args, {"d", "attribute"}));
  JinjaMeter& meter = render.meter();
  PENSTOCK_ASSIGN(const std::string separator,
                  jinja_str(meter, params.value_or(0, jinja_literal(""))));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(meter, value));
  const JinjaValue path = params.value_or(1, JinjaValue());
  std::string out;
  for (bool is_first = true;; is_first = false) {
    PENSTOCK_ASSIGN(const auto item, cursor.next());
    if (!item) return jinja_text(meter, std::move(out));
    PENSTOCK_ASSIGN(const JinjaValue part, get_path(render, *item, path));
    PENSTOCK_ASSIGN(const std::string text, jinja_str(meter, part));
    PENSTOCK_TRY(meter.step_bytes(separator.size()));
    PENSTOCK_TRY(meter.has_room(out.size() + separator.size() + text.size()));
    if (!is_first) out += separator;
    out += text;
  }
}

Result<JinjaValue> filter_sum(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("sum", args, {"attribute", "start"}));
  JinjaValue sum = params.value_or(1, JinjaValue(JinjaInt{0}));
  if (sum.is_text()) return jinja_error("sum() can't sum strings [use ''.join(seq) instead]");
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), value));
  const JinjaValue path = params.value_or(0, JinjaValue());
  while (true) {
    PENSTOCK_ASSIGN(const auto item, cursor.next());
    if (!item) return sum;
    PENSTOCK_ASSIGN(const JinjaValue part, get_path(render, *item, path));
    PENSTOCK_ASSIGN(sum, jinja_binary(render.meter(), JinjaOperator::kAdd, sum, part));
  }
}

// The first item that no other is before (in `order`).
Result<JinjaValue> extreme(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args,
                           JinjaOrder order) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("the filter", args, {"case_sensitive", "attribute"}));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), value));
  const bool case_sensitive = params.truth_or(0, false);
  const JinjaValue path = params.value_or(1, JinjaValue());
  PENSTOCK_ASSIGN(auto best, cursor.next());
  if (!best) return JinjaValue::undefined("No aggregated item, sequence was empty.");
  PENSTOCK_ASSIGN(JinjaValue best_key, sort_key(render, *best, path, case_sensitive));
  while (true) {
    PENSTOCK_ASSIGN(auto item, cursor.next());
    if (!item) return *std::move(best);
    PENSTOCK_ASSIGN(JinjaValue key, sort_key(render, *item, path, case_sensitive));
    PENSTOCK_ASSIGN(const bool better, jinja_ordered(render.meter(), order, key, best_key));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
}

Result<JinjaValue> filter_min(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  return extreme(render, value, args, JinjaOrder::kLess);
}

Result<JinjaValue> filter_max(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  return extreme(render, value, args, JinjaOrder::kGreater);
}

// The items in the order of their keys.
Result<JinjaValues> sorted(JinjaMeter& meter, const JinjaValues& items, const JinjaValues& keys,
                           bool descending) {
  PENSTOCK_ASSIGN(const std::vector<size_t> order, sorted_order(meter, keys, descending));
  JinjaValues out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

// "a,b.c" sorts by several attributes: the paths one by one.
JinjaValues paths_of(JinjaMeter& meter, const JinjaValue& attribute) {
  const auto text = text_of(attribute);
  if (!text) return {attribute};
  JinjaValues paths;
  std::string_view rest = *text;
  while (true) {
    const size_t end = std::min(rest.find(','), rest.size());
    paths.push_back(jinja_text(meter, std::string(rest.substr(0, end))));
    if (end == rest.size()) return paths;
    rest.remove_prefix(end + 1);
  }
}

Result<JinjaValue> filter_sort(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  JinjaMeter& meter = render.meter();
  PENSTOCK_ASSIGN(const JinjaValues items, items_of(meter, value));
  const JinjaValues paths = paths_of(meter, params.value_or(2, JinjaValue()));
  JinjaValues keys;
  for (const JinjaValue& item : items) {
    JinjaValues parts;
    for (const JinjaValue& path : paths) {
      PENSTOCK_ASSIGN(JinjaValue part, sort_key(render, item, path, params.truth_or(1, false)));
      parts.push_back(std::move(part));
    }
    keys.push_back(jinja_list(meter, std::move(parts)));
  }
  PENSTOCK_ASSIGN(JinjaValues out, sorted(meter, items, keys, params.truth_or(0, false)));
  return jinja_list(meter, std::move(out));
}

Result<JinjaValue> filter_dictsort(JinjaRender& render, const JinjaValue& value,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  PENSTOCK_ASSIGN(const std::string_view by, params.text_or(1, "key"));
  if (by != "key" && by != "value") {
    return jinja_error("You can only sort by either \"key\" or \"value\"");
  }
  if (value.is_undefined()) return jinja_error("{}", value.why());
  const JinjaDict* dict = value.as_dict();
  if (dict == nullptr) return jinja_error("dictsort needs a mapping, not {}", value.type_name());
  JinjaMeter& meter = render.meter();
  JinjaValues items;
  JinjaValues keys;
  for (const auto& [key, item] : dict->entries) {
    items.push_back(jinja_tuple(meter, {key, item}));
    PENSTOCK_ASSIGN(JinjaValue by_this, sort_key(render, by == "key" ? key : item, JinjaValue(),
                                                 params.truth_or(0, false)));
    keys.push_back(std::move(by_this));
  }
  PENSTOCK_ASSIGN(JinjaValues out, sorted(meter, items, keys, params.truth_or(2, false)));
  return jinja_list(meter, std::move(out));
}

Result<JinjaValue> filter_groupby(JinjaRender& render, const JinjaValue& value,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(
      const JinjaParams params,
      JinjaParams::bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  JinjaMeter& meter = render.meter();
  PENSTOCK_ASSIGN(const JinjaValues items, items_of(meter, value));
  JinjaValues plain_keys;
  JinjaValues keys;
  for (const JinjaValue& item : items) {
    PENSTOCK_ASSIGN(JinjaValue key,
                    get_path_or(render, item, params.at(0), params.value_or(1, JinjaValue())));
    plain_keys.push_back(key);
    if (!params.truth_or(2, false)) {
      PENSTOCK_ASSIGN(key, without_case(meter, key));
    }
    keys.push_back(std::move(key));
  }
  PENSTOCK_ASSIGN(const std::vector<size_t> order, sorted_order(meter, keys));
  JinjaValues groups;
  for (size_t begin = 0; begin < order.size();) {
    JinjaValues group;
    size_t end = begin;
    for (; end < order.size(); ++end) {
      PENSTOCK_ASSIGN(const bool same, jinja_equal(meter, keys[order[begin]], keys[order[end]]));
      if (!same && end > begin) break;
      group.push_back(items[order[end]]);
    }
    groups.push_back(
        jinja_sequence(meter, JinjaSequenceKind::kGroup,
                       {plain_keys[order[begin]], jinja_list(meter, std::move(group))}));
    begin = end;
  }
  return jinja_list(meter, std::move(groups));
}

constexpr JinjaFilterEntry kFilters[] = {
    {"count", filter_length},    {"dictsort", filter_dictsort}, {"first", filter_first},
    {"groupby", filter_groupby}, {"join", filter_join},         {"last", filter_last},
    {"length", filter_length},   {"list", filter_list},         {"max", filter_max},
    {"min", filter_min},         {"sort", filter_sort},         {"sum", filter_sum},
};

}  // namespace

JinjaFilter find_list_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace penstock
