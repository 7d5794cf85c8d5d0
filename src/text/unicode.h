// Characters of UTF-8 text, the character classes that tokenizers speak of, and GPT-2's printable
// stand-ins for bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace penstock {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The character at the front of valid UTF-8, moving `text` past it. `text` is not empty.
char32_t take_character(std::string_view& text);
// The character before the end of valid UTF-8, which is not empty.
char32_t last_character(std::string_view text);
size_t count_characters(std::string_view utf8);
void append_character(std::string& out, char32_t character);

bool is_white_space(char32_t character);     // Unicode's White_Space
bool is_word_character(char32_t character);  // \w: letters, marks, digits, connectors, joiners

// GPT-2 writes each byte as one printable character: itself where it is one in Latin-1, and else
// U+0100 and up.
char32_t character_of_byte(uint8_t byte);
std::optional<uint8_t> byte_of_character(char32_t character);
// The bytes a byte-level token stands for; nothing where a character of it stands for no byte.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace penstock
