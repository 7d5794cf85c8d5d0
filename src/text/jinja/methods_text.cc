// The methods of str. What they return is marked safe where the text was, as Markup's methods do.
#include <algorithm>

#include "base/html.h"
#include "text/jinja/args.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_util.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

std::string_view bytes_of(const JinjaValue& self) { return self.as_text()->bytes; }

JinjaValue like(JinjaRender& render, const JinjaValue& self, std::string text) {
  return jinja_text(render.meter(), std::move(text), self.as_text()->safe);
}

// A method that maps the text alone.
template <std::string (*change)(std::string_view)>
Result<JinjaValue> mapped(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("the method", args));
  return like(render, self, change(bytes_of(self)));
}

// A method that asks something of every character; `of_empty` answers for no characters.
template <bool (*holds)(char32_t), bool of_empty>
Result<JinjaValue> all_are(JinjaRender& /*render*/, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("the method", args));
  const std::string_view text = bytes_of(self);
  for (size_t at = 0; at < text.size();) {
    if (!holds(py_next_character(text, at))) return JinjaValue(false);
  }
  return JinjaValue(of_empty || !text.empty());
}

bool is_ascii(char32_t c) { return c < 0x80; }

template <bool (*is_this_case)(char32_t)>
Result<JinjaValue> cased(JinjaRender& /*render*/, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("the method", args));
  return JinjaValue(py_all_cased(bytes_of(self), is_this_case));
}

Result<JinjaValue> text_istitle(JinjaRender& /*render*/, const JinjaValue& self,
                                const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("istitle", args));
  const std::string_view text = bytes_of(self);
  bool after_cased = false;
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = py_next_character(text, at);
    const bool capital = py_is_uppercase(c) || py_is_titlecase(c);
    if (capital ? after_cased : py_is_lowercase(c) && !after_cased) return JinjaValue(false);
    after_cased = py_is_cased(c);
    found = found || after_cased;
  }
  return JinjaValue(found);
}

Result<JinjaValue> text_isidentifier(JinjaRender& /*render*/, const JinjaValue& self,
                                     const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("isidentifier", args));
  return JinjaValue(py_is_identifier(bytes_of(self)));
}

// ---- Stripping, padding

template <Sides sides>
Result<JinjaValue> text_strip(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("strip", args, {"chars"}));
  PENSTOCK_ASSIGN(const std::string_view stripped,
                  stripped_of(render.meter(), bytes_of(self), params.get(0), sides));
  return like(render, self, std::string(stripped));
}

Result<JinjaValue> text_removeprefix(JinjaRender& render, const JinjaValue& self,
                                     const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("removeprefix", args, {"prefix"}, 1));
  PENSTOCK_ASSIGN(const std::string_view prefix, params.text(0));
  std::string_view text = bytes_of(self);
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return like(render, self, std::string(text));
}

Result<JinjaValue> text_removesuffix(JinjaRender& render, const JinjaValue& self,
                                     const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("removesuffix", args, {"suffix"}, 1));
  PENSTOCK_ASSIGN(const std::string_view suffix, params.text(0));
  std::string_view text = bytes_of(self);
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return like(render, self, std::string(text));
}

template <char align>
Result<JinjaValue> text_justify(JinjaRender& render, const JinjaValue& self,
                                const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("the method", args, {"width", "fillchar"}, 1));
  PENSTOCK_ASSIGN(const JinjaInt width, params.integer_or(0, 0));
  PENSTOCK_ASSIGN(const std::string_view fill, params.text_or(1, " "));
  if (py_count_characters(fill) != 1) {
    return jinja_error("The fill character must be exactly one character long");
  }
  PENSTOCK_ASSIGN(std::string out, justified(render.meter(), *self.as_text(), width, align, fill));
  return like(render, self, std::move(out));
}

Result<JinjaValue> text_zfill(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("zfill", args, {"width"}, 1));
  PENSTOCK_ASSIGN(const JinjaInt width, params.integer_or(0, 0));
  PENSTOCK_ASSIGN(std::string out, justified(render.meter(), *self.as_text(), width, '>', "0"));
  const std::string_view text = bytes_of(self);
  const size_t n_zeros = out.size() - text.size();
  if (n_zeros > 0 && !text.empty() && (text[0] == '-' || text[0] == '+')) {
    std::swap(out[0], out[n_zeros]);
  }
  return like(render, self, std::move(out));
}

Result<JinjaValue> text_expandtabs(JinjaRender& render, const JinjaValue& self,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("expandtabs", args, {"tabsize"}));
  PENSTOCK_ASSIGN(const JinjaInt tab_size, params.integer_or(0, 8));
  const auto tab = static_cast<size_t>(std::clamp<JinjaInt>(tab_size, 0, INT32_MAX));
  std::string out;
  size_t column = 0;
  const std::string_view text = bytes_of(self);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = py_next_character(text, at);
    if (c == U'\t') {
      const size_t n = tab == 0 ? 0 : tab - column % tab;
      PENSTOCK_TRY(render.meter().has_room(out.size() + n));
      out.append(n, ' ');
      column += n;
    } else {
      py_append_character(out, c);
      column = c == U'\n' || c == U'\r' ? 0 : column + 1;
    }
  }
  return like(render, self, std::move(out));
}

// ---- Searching

// The part of the text between optional bounds, which count characters.
struct Window {
  std::string_view text;
  size_t first = 0;       // index of its first character
  bool is_valid = false;  // false where the start lies behind the end
};

Result<Window> window_of(const JinjaText& text, const JinjaParams& params, size_t start_at) {
  const auto length = static_cast<JinjaInt>(text.length);
  JinjaInt bounds[2] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    const JinjaValue* bound = params.get(start_at + i);
    if (bound == nullptr || bound->is_none()) continue;
    PENSTOCK_ASSIGN(bounds[i], params.integer_or(start_at + i, 0));
    if (bounds[i] < 0) bounds[i] = std::max<JinjaInt>(bounds[i] + length, 0);
  }
  bounds[1] = std::min(bounds[1], length);
  if (bounds[0] > bounds[1]) return Window{};
  const auto first = static_cast<size_t>(bounds[0]);
  const size_t begin = py_byte_of_character(text.bytes, first);
  const std::string_view tail = std::string_view(text.bytes).substr(begin);
  const size_t size = py_byte_of_character(tail, static_cast<size_t>(bounds[1] - bounds[0]));
  return Window{tail.substr(0, size), first, true};
}

// The index of the first or last occurrence, or -1.
Result<JinjaInt> find_in(const JinjaValue& self, const JinjaArgs& args, bool from_end) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("find", args, {"sub", "start", "end"}, 1));
  PENSTOCK_ASSIGN(const std::string_view part, params.text(0));
  PENSTOCK_ASSIGN(const Window window, window_of(*self.as_text(), params, 1));
  if (!window.is_valid) return -1;
  const size_t at = from_end ? window.text.rfind(part) : window.text.find(part);
  if (at == std::string_view::npos) return -1;
  return static_cast<JinjaInt>(window.first + py_count_characters(window.text.substr(0, at)));
}

template <bool from_end>
Result<JinjaValue> text_find(JinjaRender& /*render*/, const JinjaValue& self,
                             const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaInt at, find_in(self, args, from_end));
  return JinjaValue(at);
}

template <bool from_end>
Result<JinjaValue> text_index(JinjaRender& /*render*/, const JinjaValue& self,
                              const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaInt at, find_in(self, args, from_end));
  if (at < 0) return jinja_error("substring not found");
  return JinjaValue(at);
}

Result<JinjaValue> text_count(JinjaRender& /*render*/, const JinjaValue& self,
                              const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("count", args, {"sub", "start", "end"}, 1));
  PENSTOCK_ASSIGN(const std::string_view part, params.text(0));
  PENSTOCK_ASSIGN(const Window window, window_of(*self.as_text(), params, 1));
  if (!window.is_valid) return JinjaValue(JinjaInt{0});
  if (part.empty()) return JinjaValue::integer(py_count_characters(window.text) + 1);
  return JinjaValue::integer(count_occurrences(window.text, part, SIZE_MAX));
}

template <bool at_end>
Result<JinjaValue> text_affix(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("the method", args, {"affix", "start", "end"}, 1));
  PENSTOCK_ASSIGN(const Window window, window_of(*self.as_text(), params, 1));
  JinjaValues affixes = {params.at(0)};
  if (params.at(0).is_tuple()) affixes = params.at(0).as_sequence()->items;
  PENSTOCK_TRY(render.meter().step(affixes.size()));
  for (const JinjaValue& value : affixes) {
    const auto affix = text_of(value);
    if (!affix) {
      return jinja_error("{} first arg must be str or a tuple of str, not {}",
                         at_end ? "endswith" : "startswith", value.type_name());
    }
    if (!window.is_valid) continue;
    if (at_end ? window.text.ends_with(*affix) : window.text.starts_with(*affix)) {
      return JinjaValue(true);
    }
  }
  return JinjaValue(false);
}

// ---- Cutting and joining

Result<JinjaValue> as_list(JinjaRender& render, const JinjaValue& self,
                           const std::vector<std::string_view>& parts) {
  JinjaValues items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    PENSTOCK_TRY(render.meter().step());
    items.push_back(like(render, self, std::string(part)));
  }
  return jinja_list(render.meter(), std::move(items));
}

template <bool from_end>
Result<JinjaValue> text_split(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("split", args, {"sep", "maxsplit"}));
  PENSTOCK_ASSIGN(const JinjaInt given, params.integer_or(1, -1));
  const size_t most =
      given < 0 ? SIZE_MAX : static_cast<size_t>(std::min(given, JinjaInt{SIZE_MAX}));
  const std::string_view text = bytes_of(self);
  PENSTOCK_TRY(render.meter().has_room(text.size(), sizeof(std::string_view)));
  const JinjaValue* separator = params.get(0);
  if (separator == nullptr || separator->is_none()) {
    return as_list(render, self,
                   from_end ? rsplit_at_space(text, most) : split_at_space(text, most));
  }
  PENSTOCK_ASSIGN(const std::string_view by, params.text(0));
  if (by.empty()) return jinja_error("empty separator");
  return as_list(render, self, from_end ? rsplit_at(text, by, most) : split_at(text, by, most));
}

Result<JinjaValue> text_splitlines(JinjaRender& render, const JinjaValue& self,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("splitlines", args, {"keepends"}));
  const std::string_view text = bytes_of(self);
  PENSTOCK_TRY(render.meter().has_room(text.size(), sizeof(std::string_view)));
  return as_list(render, self, split_lines(text, params.truth_or(0, false)));
}

template <bool from_end>
Result<JinjaValue> text_partition(JinjaRender& render, const JinjaValue& self,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("partition", args, {"sep"}, 1));
  PENSTOCK_ASSIGN(const std::string_view separator, params.text(0));
  if (separator.empty()) return jinja_error("empty separator");
  const std::string_view text = bytes_of(self);
  const size_t at = from_end ? text.rfind(separator) : text.find(separator);
  std::string_view parts[3] = {};
  if (at == std::string_view::npos) {
    parts[from_end ? 2 : 0] = text;
  } else {
    parts[0] = text.substr(0, at);
    parts[1] = separator;
    parts[2] = text.substr(at + separator.size());
  }
  JinjaValues items;
  for (const std::string_view part : parts) items.push_back(like(render, self, std::string(part)));
  return jinja_tuple(render.meter(), std::move(items));
}

Result<JinjaValue> text_join(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("join", args, {"iterable"}, 1));
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(render.meter(), params.at(0)));
  const bool safe = self.as_text()->safe;
  std::string out;
  for (size_t i = 0;; ++i) {
    PENSTOCK_ASSIGN(const auto item, cursor.next());
    if (!item) return like(render, self, std::move(out));
    const JinjaText* text = item->as_text();
    if (text == nullptr) {
      return jinja_error("sequence item {}: expected str instance, {} found", i, item->type_name());
    }
    PENSTOCK_TRY(render.meter().step_bytes(text->bytes.size()));
    PENSTOCK_TRY(render.meter().has_room(out.size() + bytes_of(self).size() + text->bytes.size()));
    if (i > 0) out += bytes_of(self);
    out += safe && !text->safe ? html_escaped(text->bytes) : text->bytes;
  }
}

Result<JinjaValue> text_replace(JinjaRender& render, const JinjaValue& self,
                                const JinjaArgs& args) {
  if (!args.named.empty()) return jinja_error("str.replace() takes no keyword arguments");
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("replace", args, {"old", "new", "count"}, 2));
  PENSTOCK_ASSIGN(const std::string_view from, params.text(0));
  PENSTOCK_ASSIGN(const std::string_view to, params.text(1));
  PENSTOCK_ASSIGN(const JinjaInt count, params.integer_or(2, -1));
  const bool escapes = self.as_text()->safe && !params.at(1).as_text()->safe;
  PENSTOCK_ASSIGN(std::string out, replaced(render.meter(), bytes_of(self), from,
                                            escapes ? html_escaped(to) : std::string(to), count));
  return like(render, self, std::move(out));
}

Result<JinjaValue> text_format(JinjaRender& render, const JinjaValue& self, const JinjaArgs& args) {
  PENSTOCK_ASSIGN(std::string out, brace_formatted(render, *self.as_text(), args));
  return like(render, self, std::move(out));
}

Result<JinjaValue> text_format_map(JinjaRender& render, const JinjaValue& self,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("format_map", args, {"mapping"}, 1));
  const JinjaDict* dict = params.at(0).as_dict();
  if (dict == nullptr) return jinja_error("format_map() needs a mapping");
  JinjaArgs named;
  for (const auto& [key, value] : dict->entries) {
    if (const auto name = text_of(key)) named.named.emplace_back(*name, value);
  }
  return text_format(render, self, named);
}

constexpr std::pair<std::string_view, JinjaMethod> kTextMethods[] = {
    {"capitalize", mapped<py_capitalize>},
    {"casefold", mapped<py_casefold>},
    {"center", text_justify<'^'>},
    {"count", text_count},
    {"endswith", text_affix<true>},
    {"expandtabs", text_expandtabs},
    {"find", text_find<false>},
    {"format", text_format},
    {"format_map", text_format_map},
    {"index", text_index<false>},
    {"isalnum", all_are<py_is_alphanumeric, false>},
    {"isalpha", all_are<py_is_alphabetic, false>},
    {"isascii", all_are<is_ascii, true>},
    {"isdecimal", all_are<py_is_decimal, false>},
    {"isdigit", all_are<py_is_digit, false>},
    {"isidentifier", text_isidentifier},
    {"islower", cased<py_is_lowercase>},
    {"isnumeric", all_are<py_is_numeric, false>},
    {"isprintable", all_are<py_is_printable, true>},
    {"isspace", all_are<py_is_space, false>},
    {"istitle", text_istitle},
    {"isupper", cased<py_is_uppercase>},
    {"join", text_join},
    {"ljust", text_justify<'<'>},
    {"lower", mapped<py_lower>},
    {"lstrip", text_strip<Sides::kLeft>},
    {"partition", text_partition<false>},
    {"removeprefix", text_removeprefix},
    {"removesuffix", text_removesuffix},
    {"replace", text_replace},
    {"rfind", text_find<true>},
    {"rindex", text_index<true>},
    {"rjust", text_justify<'>'>},
    {"rpartition", text_partition<true>},
    {"rsplit", text_split<true>},
    {"rstrip", text_strip<Sides::kRight>},
    {"split", text_split<false>},
    {"splitlines", text_splitlines},
    {"startswith", text_affix<false>},
    {"strip", text_strip<Sides::kBoth>},
    {"swapcase", mapped<py_swapcase>},
    {"title", mapped<py_title>},
    {"upper", mapped<py_upper>},
    {"zfill", text_zfill},
};

}  // namespace

JinjaMethod find_text_method(std::string_view name) {
  for (const auto& [known, method] : kTextMethods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace penstock
