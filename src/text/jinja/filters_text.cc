// Filters that make text out of text.
#include <algorithm>
#include <cctype>

#include "base/html.h"
#include "text/jinja/args.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/text_util.h"
#include "text/jinja/unicode.h"
#include "text/jinja/wordwrap.h"

namespace penstock {
namespace {

// A filter that is a change of the text, safe where it was.
template <std::string (*change)(std::string_view)>
Result<JinjaValue> mapped(JinjaRender& render, const JinjaValue& value, const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("the filter", args));
  PENSTOCK_ASSIGN(const JinjaValue text, as_text_value(render, value));
  PENSTOCK_TRY(render.meter().step_characters(text.as_text()->bytes.size()));
  return jinja_text(render.meter(), change(text.as_text()->bytes), text.as_text()->safe);
}

bool begins_words(char32_t c) {
  return c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<' || py_is_space(c);
}

// jinja2's own idea of a title: a capital behind blanks, dashes and opening brackets.
std::string title(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    const bool between = begins_words(py_next_character(text, end));
    while (end < text.size()) {
      size_t after = end;
      if (begins_words(py_next_character(text, after)) != between) break;
      end = after;
    }
    const std::string_view run = text.substr(at, end - at);
    const size_t first = py_byte_of_character(run, 1);
    out += py_upper(run.substr(0, first)) + py_lower(run.substr(first));
    at = end;
  }
  return out;
}

Result<JinjaValue> filter_trim(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("trim", args, {"chars"}));
  PENSTOCK_ASSIGN(const JinjaValue text, as_text_value(render, value));
  PENSTOCK_TRY(render.meter().step_characters(text.as_text()->bytes.size()));
  PENSTOCK_ASSIGN(const std::string_view trimmed,
                  stripped_of(render.meter(), text.as_text()->bytes, params.get(0), Sides::kBoth));
  return jinja_text(render.meter(), std::string(trimmed), text.as_text()->safe);
}

Result<JinjaValue> filter_replace(JinjaRender& render, const JinjaValue& value,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("replace", args, {"old", "new", "count"}, 2));
  PENSTOCK_ASSIGN(const std::string text, jinja_str(render.meter(), value));
  PENSTOCK_ASSIGN(const std::string from, jinja_str(render.meter(), params.at(0)));
  PENSTOCK_ASSIGN(const std::string to, jinja_str(render.meter(), params.at(1)));
  JinjaInt count = -1;
  if (params.get(2) != nullptr && !params.at(2).is_none()) {
    PENSTOCK_ASSIGN(count, params.integer_or(2, -1));
  }
  PENSTOCK_ASSIGN(std::string out, replaced(render.meter(), text, from, to, count));
  return jinja_text(render.meter(), std::move(out));
}

Result<JinjaValue> filter_center(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("center", args, {"width"}));
  PENSTOCK_ASSIGN(const JinjaInt width, params.integer_or(0, 80));
  PENSTOCK_ASSIGN(const JinjaValue text, as_text_value(render, value));
  PENSTOCK_ASSIGN(std::string out, justified(render.meter(), *text.as_text(), width, '^', " "));
  return jinja_text(render.meter(), std::move(out), text.as_text()->safe);
}

Result<JinjaValue> filter_indent(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("indent", args, {"width", "first", "blank"}));
  const JinjaText* text = value.as_text();
  if (text == nullptr) {
    if (value.is_undefined()) return jinja_error("{}", value.why());
    return jinja_error("indent: the value must be str, not {}", value.type_name());
  }
  JinjaMeter& meter = render.meter();
  std::string indentation;
  if (const JinjaValue* width = params.get(0); width != nullptr && width->is_text()) {
    indentation = width->as_text()->bytes;
    if (text->safe && !width->as_text()->safe) indentation = html_escaped(indentation);
  } else {
    PENSTOCK_ASSIGN(const JinjaInt n, params.integer_or(0, 4));
    const auto n_blanks = static_cast<size_t>(std::clamp<JinjaInt>(n, 0, JinjaInt{SIZE_MAX}));
    PENSTOCK_TRY(meter.has_room(n_blanks));
    indentation.assign(n_blanks, ' ');
  }
  const bool indents_blank = params.truth_or(2, false);
  // The newline added keeps a newline at the end from being lost with its line.
  PENSTOCK_TRY(meter.step_characters(text->bytes.size()));
  const std::string source = text->bytes + "\n";
  const auto lines = split_lines(source, false);
  PENSTOCK_TRY(meter.has_room(lines.size(), indentation.size() + 1));
  std::string out = params.truth_or(1, false) ? indentation : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (indents_blank || !lines[i].empty()) out += indentation;
    }
    out += lines[i];
  }
  return jinja_text(meter, std::move(out), text->safe);
}

Result<JinjaValue> filter_truncate(JinjaRender& render, const JinjaValue& value,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params,
                  JinjaParams::bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  PENSTOCK_ASSIGN(const JinjaInt length, params.integer_or(0, 255));
  PENSTOCK_ASSIGN(const std::string_view end, params.text_or(2, "..."));
  JinjaInt leeway = 5;
  if (params.get(3) != nullptr && !params.at(3).is_none()) {
    PENSTOCK_ASSIGN(leeway, params.integer_or(3, leeway));
  }
  const auto end_length = static_cast<JinjaInt>(py_count_characters(end));
  if (length < end_length) return jinja_error("truncate: the length is less than that of the end");
  if (leeway < 0) return jinja_error("truncate: the leeway is negative");
  const JinjaText* text = value.as_text();
  if (text == nullptr) {
    const auto size = length_of(value);
    if (!size) return jinja_error("object of type '{}' has no len()", value.type_name());
    if (static_cast<JinjaInt>(*size) - length <= leeway) return value;
    return jinja_error("truncate: the value must be str, not {}", value.type_name());
  }
  if (static_cast<JinjaInt>(text->length) - length <= leeway) return value;
  std::string_view kept = text->bytes;
  kept = kept.substr(0, py_byte_of_character(kept, static_cast<size_t>(length - end_length)));
  if (!params.truth_or(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return jinja_text(render.meter(), std::string(kept) + std::string(end), text->safe);
}

Result<JinjaValue> filter_wordcount(JinjaRender& render, const JinjaValue& value,
                                    const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("wordcount", args));
  PENSTOCK_ASSIGN(const std::string text, jinja_str(render.meter(), value));
  PENSTOCK_TRY(render.meter().step_characters(text.size()));
  size_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool is_word = py_is_word(py_next_character(text, at));
    if (is_word && !inside) ++count;
    inside = is_word;
  }
  return JinjaValue::integer(count);
}

Result<JinjaValue> filter_wordwrap(JinjaRender& render, const JinjaValue& value,
                                   const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("wordwrap", args,
                                                              {"width", "break_long_words",
                                                               "wrapstring", "break_on_hyphens"}));
  PENSTOCK_ASSIGN(const JinjaInt width, params.integer_or(0, 79));
  if (width <= 0) return jinja_error("invalid width {} (must be > 0)", py_integer(width));
  const bool by_default = params.get(2) == nullptr || params.at(2).is_none();
  PENSTOCK_ASSIGN(const std::string_view newline, by_default ? "\n" : params.text(2));
  const auto text = text_of(value);
  if (!text) return jinja_error("wordwrap: the value must be str, not {}", value.type_name());
  PENSTOCK_TRY(render.meter().step(text->size()));
  const WordWrap wrap{
      .width = static_cast<size_t>(std::min(width, JinjaInt{SIZE_MAX} / 2)),
      .break_long_words = params.truth_or(1, true),
      .break_on_hyphens = params.truth_or(3, true),
  };
  std::string out;
  bool is_first = true;
  for (const std::string_view line : split_lines(*text, false)) {
    // An empty line wraps to no lines at all, which still are joined to the others.
    if (!is_first) out += newline;
    is_first = false;
    const auto wrapped = wrap_line(line, wrap);
    PENSTOCK_TRY(render.meter().has_room(out.size() + line.size()));
    PENSTOCK_TRY(render.meter().has_room(wrapped.size(), newline.size()));
    for (size_t i = 0; i < wrapped.size(); ++i) {
      if (i > 0) out += newline;
      out += wrapped[i];
    }
  }
  return jinja_text(render.meter(), std::move(out));
}

Result<JinjaValue> filter_format(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return jinja_error("can't handle positional and keyword arguments at the same time");
  }
  JinjaMeter& meter = render.meter();
  PENSTOCK_ASSIGN(const JinjaValue text, as_text_value(render, value));
  JinjaDict named;
  for (const auto& [name, item] : args.named) named.set(jinja_text(meter, name), item);
  const JinjaValue values = args.named.empty() ? jinja_tuple(meter, args.positional)
                                               : jinja_dict(meter, std::move(named));
  return jinja_binary(meter, JinjaOperator::kModulo, text, values);
}

// ---- Escaping

Result<JinjaValue> filter_escape(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("escape", args));
  return jinja_escaped(render.meter(), value);
}

Result<JinjaValue> filter_forceescape(JinjaRender& render, const JinjaValue& value,
                                      const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("forceescape", args));
  PENSTOCK_ASSIGN(const std::string text, jinja_str(render.meter(), value));
  return jinja_text(render.meter(), html_escaped(text), true);
}

Result<JinjaValue> filter_safe(JinjaRender& render, const JinjaValue& value,
                               const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("safe", args));
  PENSTOCK_ASSIGN(std::string text, jinja_str(render.meter(), value));
  return jinja_text(render.meter(), std::move(text), true);
}

Result<JinjaValue> filter_string(JinjaRender& render, const JinjaValue& value,
                                 const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("string", args));
  return as_text_value(render, value);
}

void append_url_quoted(std::string& out, std::string_view text, bool in_query) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte) != 0) || c == '_' || c == '.' || c == '-' || c == '~' ||
        (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
}

Result<JinjaValue> filter_urlencode(JinjaRender& render, const JinjaValue& value,
                                    const JinjaArgs& args) {
  PENSTOCK_TRY(takes_nothing("urlencode", args));
  JinjaMeter& meter = render.meter();
  std::string out;
  if (value.is_text() || !is_iterable(value)) {
    PENSTOCK_ASSIGN(const std::string text, jinja_str(meter, value));
    PENSTOCK_TRY(meter.step_characters(text.size()));
    PENSTOCK_TRY(meter.has_room(text.size(), 3));
    append_url_quoted(out, text, false);
    return jinja_text(meter, std::move(out));
  }
  JinjaValue source = value;
  if (const JinjaDict* dict = value.as_dict()) {
    JinjaValues pairs;
    for (const auto& [key, item] : dict->entries) pairs.push_back(jinja_tuple(meter, {key, item}));
    source = jinja_list(meter, std::move(pairs));
  }
  JinjaCursor cursor(meter, source);
  while (true) {
    PENSTOCK_ASSIGN(const auto pair, cursor.next());
    if (!pair) return jinja_text(meter, std::move(out));
    PENSTOCK_ASSIGN(const JinjaValues parts, items_of(meter, *pair));
    if (parts.size() != 2) return jinja_error("urlencode needs pairs of a key and a value");
    PENSTOCK_ASSIGN(const std::string key, jinja_str(meter, parts[0]));
    PENSTOCK_ASSIGN(const std::string item, jinja_str(meter, parts[1]));
    PENSTOCK_TRY(meter.step_characters(key.size() + item.size()));
    PENSTOCK_TRY(meter.has_room(out.size() + 3 * (key.size() + item.size())));
    if (!out.empty()) out += '&';
    append_url_quoted(out, key, true);
    out += '=';
    append_url_quoted(out, item, true);
  }
}

Result<JinjaValue> filter_xmlattr(JinjaRender& render, const JinjaValue& value,
                                  const JinjaArgs& args) {
  PENSTOCK_ASSIGN(const JinjaParams params, JinjaParams::bind("xmlattr", args, {"autospace"}));
  const JinjaDict* dict = value.as_dict();
  if (dict == nullptr) return jinja_error("xmlattr needs a mapping, not {}", value.type_name());
  std::string out;
  for (const auto& [key, item] : dict->entries) {
    if (item.is_none() || item.is_undefined()) continue;
    const auto name = text_of(key);
    if (!name || name->find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return jinja_error("Invalid character in attribute name");
    }
    PENSTOCK_ASSIGN(const JinjaValue escaped_key, jinja_escaped(render.meter(), key));
    PENSTOCK_ASSIGN(const JinjaValue escaped, jinja_escaped(render.meter(), item));
    PENSTOCK_TRY(render.meter().has_room(out.size() + escaped.as_text()->bytes.size()));
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : " ", escaped_key.as_text()->bytes,
                       escaped.as_text()->bytes);
  }
  if (params.truth_or(0, true) && !out.empty()) out.insert(0, " ");
  return jinja_text(render.meter(), std::move(out));
}

constexpr JinjaFilterEntry kFilters[] = {
    {"capitalize", mapped<py_capitalize>},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"lower", mapped<py_lower>},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", mapped<title>},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", mapped<py_upper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"xmlattr", filter_xmlattr},
};

}  // namespace

JinjaFilter find_text_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace penstock
