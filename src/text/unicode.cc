#include "text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstring>

namespace penstock {
namespace {

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

struct ByteAlphabet {
  static constexpr size_t kNumCharacters = 324;  // U+0000 to U+0143, the last stand-in
  std::array<char32_t, 256> character{};
  std::array<int16_t, kNumCharacters> byte{};

  ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet made;
  return made;
}

}  // namespace

char32_t take_character(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = byte(0);
  char32_t character = first;
  size_t length = 1;
  if (first >= 0xF0) {
    character =
        (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (first >= 0xE0) {
    character = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (first >= 0xC0) {
    character = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  text.remove_prefix(length);
  return character;
}

char32_t last_character(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && is_continuation(text[start])) --start;
  text.remove_prefix(start);
  return take_character(text);
}

size_t count_characters(std::string_view utf8) {
  size_t n = 0;
  for (const char byte : utf8) n += is_continuation(byte) ? 0 : 1;
  return n;
}

void append_character(std::string& out, char32_t character) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
}

bool is_white_space(char32_t character) {
  if (character >= 0x09 && character <= 0x0D) return true;
  if (character < 0x80) return character == ' ';
  if (character == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

bool is_word_character(char32_t character) {
  if (character == 0x200C || character == 0x200D) return true;  // the two joiners
  // The symbols that Unicode calls alphabetic: letters in circles and squares.
  if ((character >= 0x24B6 && character <= 0x24E9) ||
      (character >= 0x1F130 && character <= 0x1F149) ||
      (character >= 0x1F150 && character <= 0x1F169) ||
      (character >= 0x1F170 && character <= 0x1F189)) {
    return true;
  }
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

char32_t character_of_byte(uint8_t byte) { return alphabet().character[byte]; }

std::optional<uint8_t> byte_of_character(char32_t character) {
  if (character >= ByteAlphabet::kNumCharacters) return std::nullopt;
  const int16_t byte = alphabet().byte[character];
  if (byte < 0) return std::nullopt;
  return static_cast<uint8_t>(byte);
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const auto byte = byte_of_character(take_character(token));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace penstock
