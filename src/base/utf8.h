// UTF-8 from outside: whether bytes are text at all, and where they stop being so.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace penstock {

// What stands at the front of a stretch of bytes.
struct Utf8Front {
  enum class Kind {
    kWhole,       // one character
    kBroken,      // bytes that no continuation can turn into a character
    kIncomplete,  // the beginning of a character; the bytes end before it does
  };
  Kind kind = Kind::kWhole;
  size_t length = 0;  // bytes; of kBroken the "maximal subpart" that one U+FFFD stands for

  bool operator==(const Utf8Front&) const = default;
};

// `bytes` is not empty. Unicode standard, tables 3-7 (well-formed sequences) and 3-8 (maximal
// subparts).
Utf8Front utf8_front(std::string_view bytes);

// How many bytes at the front of `text` are ASCII.
size_t ascii_prefix(std::string_view text);
// Where `text` stops being UTF-8 as RFC 3629 has it (no overlong forms, no surrogates, nothing
// above U+10FFFF); nothing where all of it is.
std::optional<size_t> find_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) { return !find_invalid_utf8(text); }

}  // namespace penstock
