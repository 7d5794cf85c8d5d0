#include "text/jinja/printing.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace penstock {
namespace {

void append_escaped(std::string& out, char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

// Writes the repr of values inside each other, metering each.
class ReprWriter {
 public:
  explicit ReprWriter(JinjaMeter& meter) : meter_(meter) {}

  Result<void> write(const JinjaValue& value);
  std::string take() { return std::move(out_); }

 private:
  Result<void> write_one(const JinjaValue& value);
  Result<void> write_sequence(const JinjaSequence& sequence);
  Result<void> write_dict(const JinjaDict& dict);
  Result<void> write_items(std::string_view open, const JinjaValues& items, std::string_view close);

  JinjaMeter& meter_;
  std::string out_;
};

Result<void> ReprWriter::write(const JinjaValue& value) {
  if (meter_.print_depth > meter_.limits().max_depth) {
    return fail(ErrorKind::kExhausted, "printing a value nested more than {} deep",
                meter_.limits().max_depth);
  }
  ++meter_.print_depth;
  auto written = write_one(value);
  --meter_.print_depth;
  return written;
}

Result<void> ReprWriter::write_one(const JinjaValue& value) {
  PENSTOCK_TRY(meter_.step());
  PENSTOCK_TRY(meter_.has_room(out_.size()));
  if (const JinjaText* text = value.as_text()) {
    PENSTOCK_TRY(meter_.step_characters(text->bytes.size()));
    const std::string quoted = py_quoted(text->bytes);
    out_ += text->safe ? "Markup(" + quoted + ")" : quoted;
    return {};
  }
  if (const JinjaSequence* sequence = value.as_sequence()) return write_sequence(*sequence);
  if (const JinjaDict* dict = value.as_dict()) return write_dict(*dict);
  if (value.is_undefined()) {
    out_ += "Undefined";
    return {};
  }
  PENSTOCK_ASSIGN(const std::string text, jinja_str(meter_, value));
  out_ += text;
  return {};
}

Result<void> ReprWriter::write_items(std::string_view open, const JinjaValues& items,
                                     std::string_view close) {
  out_ += open;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += ", ";
    PENSTOCK_TRY(write(items[i]));
  }
  out_ += close;
  return {};
}

Result<void> ReprWriter::write_sequence(const JinjaSequence& sequence) {
  switch (sequence.kind) {
    case JinjaSequenceKind::kList:
      return write_items("[", sequence.items, "]");
    case JinjaSequenceKind::kTuple:
    case JinjaSequenceKind::kGroup:
      return write_items("(", sequence.items, sequence.items.size() == 1 ? ",)" : ")");
    case JinjaSequenceKind::kDictKeys:
      return write_items("dict_keys([", sequence.items, "])");
    case JinjaSequenceKind::kDictValues:
      return write_items("dict_values([", sequence.items, "])");
    case JinjaSequenceKind::kDictItems:
      return write_items("dict_items([", sequence.items, "])");
  }
  return {};
}

Result<void> ReprWriter::write_dict(const JinjaDict& dict) {
  out_ += "{";
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out_ += ", ";
    PENSTOCK_TRY(write(dict.entries[i].first));
    out_ += ": ";
    PENSTOCK_TRY(write(dict.entries[i].second));
  }
  out_ += "}";
  return {};
}

std::string range_repr(const JinjaRange& range) {
  const std::string bounds = fmt::format("{}, {}", py_integer(range.start), py_integer(range.stop));
  if (range.step == 1) return fmt::format("range({})", bounds);
  return fmt::format("range({}, {})", bounds, py_integer(range.step));
}

}  // namespace

Result<std::string> jinja_repr(JinjaMeter& meter, const JinjaValue& value) {
  ReprWriter writer(meter);
  PENSTOCK_TRY(writer.write(value));
  return writer.take();
}

Result<std::string> jinja_str(JinjaMeter& meter, const JinjaValue& value) {
  if (const JinjaText* text = value.as_text()) {
    PENSTOCK_TRY(meter.step_bytes(text->bytes.size()));
    return text->bytes;
  }
  if (value.is_undefined()) return std::string();
  if (value.is_none()) return std::string("None");
  if (const bool* flag = value.as_bool()) return std::string(*flag ? "True" : "False");
  if (const JinjaInt* integer = value.as_int()) return py_integer(*integer);
  if (const double* real = value.as_float()) return py_float(*real);
  if (const JinjaRange* range = value.as_range()) return range_repr(*range);
  if (const JinjaIterator* iterator = value.as_iterator()) {
    return fmt::format("<{} object>", iterator->type_name);
  }
  if (JinjaObject* object = value.as_object()) return object->repr(meter);
  return jinja_repr(meter, value);
}

std::string py_integer(JinjaInt value) {
  // Digits from the end; the magnitude as unsigned, because the least integer has no positive twin.
  __extension__ typedef unsigned __int128 Magnitude;
  auto left = static_cast<Magnitude>(value);
  if (value < 0) left = 0 - left;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(left % 10)));
    left /= 10;
  } while (left != 0);
  if (value < 0) digits.push_back('-');
  return {digits.rbegin(), digits.rend()};
}

std::string py_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // "d.ddde+XX" with the fewest digits, from which Python's layout is made.
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view scientific(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t first_digit = e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(scientific.data() + first_digit, end, exponent);
  std::string_view mantissa = scientific.substr(0, e);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02d}", mantissa, exponent < 0 ? "-" : "+", std::abs(exponent));
  }
  std::string fixed(buffer.size() * 2, '\0');
  const auto stop =
      std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed).ptr;
  fixed.resize(static_cast<size_t>(stop - fixed.data()));
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string py_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = py_next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == U'\n') {
      out += "\\n";
    } else if (c == U'\r') {
      out += "\\r";
    } else if (c == U'\t') {
      out += "\\t";
    } else if (!py_is_printable(c)) {
      append_escaped(out, c);
    } else {
      out += text.substr(begin, at - begin);
    }
  }
  out += quote;
  return out;
}

std::string py_ascii(std::string_view repr) {
  std::string out;
  for (size_t at = 0; at < repr.size();) {
    const char32_t c = py_next_character(repr, at);
    if (c > 0x7e) {
      append_escaped(out, c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

}  // namespace penstock
