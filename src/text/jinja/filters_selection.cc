// Filters whose result is computed as it is asked for: Python's generators.
#include <algorithm>

#include "text/jinja/args.h"
#include "text/jinja/attributes.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/iterate.h"
#include "text/jinja/sort_key.h"

namespace penstock {
namespace {

using Next = Result<std::optional<JinjaValue>>;

size_t depth_of(const JinjaValue& value, const JinjaArgs& args) {
  size_t deepest = value.depth();
  for (const JinjaValue& arg : args.positional) deepest = std::max(deepest, arg.depth());
  for (const auto& [name, arg] : args.named) deepest = std::max(deepest, arg.depth());
  return deepest;
}

// What the lazy filters loop over: nothing where the value is false, as they begin with `if value`.
Result<JinjaCursor> cursor_if_true(JinjaMeter& meter, const JinjaValue& value) {
  if (!value.truth()) return JinjaCursor(meter, JinjaValue());
  return iterate(meter, value);
}

JinjaArgs without_first(const JinjaArgs& args, size_t n) {
  JinjaArgs rest = args;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(n));
  return rest;
}

Result<JinjaValue> map_attribute(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  JinjaValue path;
  JinjaValue otherwise;
  for (const auto& [name, arg] : args.named) {
    if (name != "attribute" && name != "default") {
      return jinja_error("Unexpected keyword argument '{}'", name);
    }
    (name == "attribute" ? path : otherwise) = arg;
  }
  PENSTOCK_ASSIGN(JinjaCursor cursor, cursor_if_true(render.meter(), value));
  const auto next = [&render, cursor, path, otherwise]() mutable -> Next {
    PENSTOCK_ASSIGN(auto item, cursor.next());
    if (!item) return item;
    return get_path_or(render, *item, path, otherwise);
  };
  return jinja_iterator(render.meter(), depth_of(value, args), next);
}

Result<JinjaValue> filter_map(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  if (args.positional.empty()) {
    const bool by_attribute = std::ranges::any_of(
        args.named, [](const auto& entry) { return entry.first == "attribute"; });
    if (by_attribute) return map_attribute(render, value, args);
    return jinja_error("map requires a filter argument");
  }
  const auto name = text_of(args.positional.front());
  if (!name) return jinja_error("map: the filter must be named by str");
  PENSTOCK_ASSIGN(JinjaCursor cursor, cursor_if_true(render.meter(), value));
  const auto next = [&render, cursor, filter = std::string(*name),
                     rest = without_first(args, 1)]() mutable -> Next {
    PENSTOCK_ASSIGN(auto item, cursor.next());
    if (!item) return item;
    return render.filter(filter, *item, rest);
  };
  return jinja_iterator(render.meter(), depth_of(value, args), next);
}

// The items for which a test (their truth, where none is named) has the answer `wanted`;
// `by_attribute` tests an attribute of each, named by the first argument.
Result<JinjaValue> selected(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args,
                            bool wanted, bool by_attribute) {
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) {
    return jinja_error("Missing parameter for attribute name");
  }
  const JinjaValue path = by_attribute ? args.positional.front() : JinjaValue();
  std::optional<std::string> test;
  JinjaArgs rest;
  if (args.positional.size() > test_at) {
    const auto name = text_of(args.positional[test_at]);
    if (!name) return jinja_error("select: the test must be named by str");
    test = std::string(*name);
    rest = without_first(args, test_at + 1);
  }
  PENSTOCK_ASSIGN(JinjaCursor cursor, cursor_if_true(render.meter(), value));
  const auto next = [&render, cursor, path, test, rest, wanted]() mutable -> Next {
    while (true) {
      PENSTOCK_ASSIGN(auto item, cursor.next());
      if (!item) return item;
      PENSTOCK_ASSIGN(const JinjaValue subject, get_path(render, *item, path));
      bool holds = subject.truth();
      if (test) {
        PENSTOCK_ASSIGN(holds, render.test(*test, subject, rest));
      }
      if (holds == wanted) return item;
    }
  };
  return jinja_iterator(render.meter(), depth_of(value, args), next);
}

template <bool wanted, bool by_attribute>
Result<JinjaValue> filter_select(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  return selected(render, value, args, wanted, by_attribute);
}

Result<JinjaValue> filter_unique(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("unique", args, {"case_sensitive", "attribute"}));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), value));
  const bool case_sensitive = params.truth_or(0, false);
  const JinjaValue path = params.value_or(1, JinjaValue());
  const auto next = [&render, cursor, case_sensitive, path,
                     seen = std::make_shared<JinjaDict>()]() mutable -> Next {
    while (true) {
      PENSTOCK_ASSIGN(auto item, cursor.next());
      if (!item) return item;
      PENSTOCK_ASSIGN(const JinjaValue key, sort_key(render, *item, path, case_sensitive));
      PENSTOCK_TRY(hashable(key));
      if (seen->find(key) != nullptr) continue;
      constexpr size_t kBytesPerKey = 160;  // nobody else counts these
      PENSTOCK_TRY(render.meter().has_room(seen->entries.size(), kBytesPerKey));
      seen->set(key, JinjaValue());
      return item;
    }
  };
  return jinja_iterator(render.meter(), depth_of(value, args), next);
}

Result<JinjaValue> filter_batch(JinjaRender& render, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("batch", args, {"linecount", "fill_with"}, 1));
  PENSTOCK_ASSIGN(const JinjaInt size, params.integer_or(0, 0));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), value));
  const JinjaValue fill = params.value_or(1, JinjaValue());
  const auto next = [&render, cursor, size, fill,
                     waiting = std::optional<JinjaValue>()]() mutable -> Next {
    JinjaValues line;
    if (waiting) line.push_back(*std::exchange(waiting, std::nullopt));
    while (true) {
      PENSTOCK_ASSIGN(auto item, cursor.next());
      if (!item) break;
      if (static_cast<JinjaInt>(line.size()) == size) {
        waiting = std::move(item);
        return jinja_list(render.meter(), std::move(line));
      }
      line.push_back(*std::move(item));
    }
    if (line.empty()) return std::nullopt;
    if (!fill.is_none() && static_cast<JinjaInt>(line.size()) < size) {
      const JinjaInt missing =
          std::min(size - static_cast<JinjaInt>(line.size()), JinjaInt{SIZE_MAX});
      PENSTOCK_TRY(render.meter().has_room(static_cast<size_t>(missing), sizeof(JinjaValue)));
      line.insert(line.end(), static_cast<size_t>(missing), fill);
    }
    return jinja_list(render.meter(), std::move(line));
  };
  return jinja_iterator(render.meter(), depth_of(value, args), next);
}

Result<JinjaValue> filter_slice(JinjaRender& render, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("slice", args, {"slices", "fill_with"}, 1));
  PENSTOCK_ASSIGN(const JinjaInt wanted, params.integer_or(0, 0));
  if (wanted == 0) return jinja_error("integer division or modulo by zero");
  PENSTOCK_ASSIGN(JinjaValues items, items_of(render.meter(), value));
  const JinjaValue fill = params.value_or(1, JinjaValue());
  const auto n_slices = static_cast<size_t>(std::clamp<JinjaInt>(wanted, 0, JinjaInt{SIZE_MAX}));
  const size_t each = n_slices == 0 ? 0 : items.size() / n_slices;
  const size_t n_longer = n_slices == 0 ? 0 : items.size() % n_slices;
  const JinjaValue all = jinja_list(render.meter(), std::move(items));
  const auto next = [&render, all, fill, n_slices, each, n_longer, number = size_t{0},
                     begin = size_t{0}]() mutable -> Next {
    if (number == n_slices) return std::nullopt;
    PENSTOCK_TRY(render.meter().step());
    const bool longer = number < n_longer;
    const size_t end = begin + each + (longer ? 1 : 0);
    const JinjaValues& source = all.as_sequence()->items;
    JinjaValues part(source.begin() + static_cast<std::ptrdiff_t>(begin),
                     source.begin() + static_cast<std::ptrdiff_t>(end));
    if (!fill.is_none() && !longer) part.push_back(fill);
    begin = end;
    ++number;
    return jinja_list(render.meter(), std::move(part));
  };
  return jinja_iterator(render.meter(), std::max(all.depth(), fill.depth()), next);
}

Result<JinjaValue> filter_items(JinjaRender& render, const JinjaValue& value,
                                const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("items", args));
  if (!value.is_undefined() && !value.is_dict()) {
    return jinja_error("Can only get item pairs from a mapping.");
  }
  const auto next = [&render, value, at = size_t{0}]() mutable -> Next {
    const JinjaDict* dict = value.as_dict();
    if (dict == nullptr || at == dict->entries.size()) return std::nullopt;
    const auto& [key, item] = dict->entries[at++];
    return jinja_tuple(render.meter(), {key, item});
  };
  return jinja_iterator(render.meter(), value.depth() + 1, next);
}

Result<JinjaValue> filter_reverse(JinjaRender& render, const JinjaValue& value,
                                  const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("reverse", args));
  JinjaMeter& meter = render.meter();
  if (value.is_text()) {
    return jinja_slice(meter, value, JinjaValue(), JinjaValue(), JinjaValue(JinjaInt{-1}));
  }
  if (!is_iterable(value)) return jinja_error("argument must be iterable");
  PENSTOCK_ASSIGN(JinjaValues items, items_of(meter, value));
  std::ranges::reverse(items);
  JinjaValue reversed = jinja_list(meter, std::move(items));
  if (value.as_iterator() != nullptr) return reversed;  // Python cannot reverse it lazily either
  const auto next = [cursor = JinjaCursor(meter, reversed)]() mutable -> Next {
    return cursor.next();
  };
  return jinja_iterator(meter, reversed.depth(), next, "reversed");
}

constexpr JinjaFilterEntry kFilters[] = {
    {"batch", filter_batch},
    {"items", filter_items},
    {"map", filter_map},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<false, true>},
    {"reverse", filter_reverse},
    {"select", filter_select<true, false>},
    {"selectattr", filter_select<true, true>},
    {"slice", filter_slice},
    {"unique", filter_unique},
};

}  // namespace

JinjaFilter find_selection_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace penstock
