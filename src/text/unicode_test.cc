#include "text/unicode.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Kind = Utf8Front::Kind;

TEST(Unicode, FrontOfBytes) {
  EXPECT_EQ(utf8_front("a"), (Utf8Front{Kind::kWhole, 1}));
  EXPECT_EQ(utf8_front("\xC3\xA9x"), (Utf8Front{Kind::kWhole, 2}));
  EXPECT_EQ(utf8_front("\xE2\x82\xAC"), (Utf8Front{Kind::kWhole, 3}));
  EXPECT_EQ(utf8_front("\xF0\x9F\x98\x80"), (Utf8Front{Kind::kWhole, 4}));
  EXPECT_EQ(utf8_front("\xE2\x82"), (Utf8Front{Kind::kIncomplete, 2}));
  EXPECT_EQ(utf8_front("\xF0\x9F\x98"), (Utf8Front{Kind::kIncomplete, 3}));
  EXPECT_EQ(utf8_front("\x80"), (Utf8Front{Kind::kBroken, 1}));
  EXPECT_EQ(utf8_front("\xC0\xAF"), (Utf8Front{Kind::kBroken, 1})) << "overlong";
  EXPECT_EQ(utf8_front("\xE0\x80\x80"), (Utf8Front{Kind::kBroken, 1})) << "overlong";
  EXPECT_EQ(utf8_front("\xED\xA0\x80"), (Utf8Front{Kind::kBroken, 1})) << "surrogate";
  EXPECT_EQ(utf8_front("\xF4\x90\x80\x80"), (Utf8Front{Kind::kBroken, 1})) << "above U+10FFFF";
  EXPECT_EQ(utf8_front("\xE2\x82x"), (Utf8Front{Kind::kBroken, 2})) << "a maximal subpart";
  EXPECT_EQ(utf8_front("\xF5"), (Utf8Front{Kind::kBroken, 1}));
}

TEST(Unicode, EveryCharacterSurvivesTheTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_character(bytes, c);
    ASSERT_FALSE(find_invalid_utf8(bytes)) << uint32_t{c};
    ASSERT_EQ(utf8_front(bytes), (Utf8Front{Kind::kWhole, bytes.size()})) << uint32_t{c};
    ASSERT_EQ(last_character(bytes), c);
    std::string_view rest = bytes;
    ASSERT_EQ(take_character(rest), c);
    ASSERT_TRUE(rest.empty());
  }
}

TEST(Unicode, FindsTheFirstInvalidByteAnywhere) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'a');
    EXPECT_EQ(find_invalid_utf8(text), std::nullopt);
    text[at] = '\xFF';
    EXPECT_EQ(find_invalid_utf8(text), at);
    EXPECT_EQ(ascii_prefix(text), at);
  }
  EXPECT_EQ(find_invalid_utf8("ok \xE2\x82"), 3u);
}

TEST(Unicode, TheByteAlphabetIsGpt2s) {
  EXPECT_EQ(character_of_byte('a'), U'a');
  EXPECT_EQ(character_of_byte(' '), U'\u0120');
  EXPECT_EQ(character_of_byte('\n'), U'\u010A');
  EXPECT_EQ(character_of_byte(0xAD), U'\u0143');
  EXPECT_EQ(character_of_byte(0xFF), U'\u00FF');
  for (unsigned byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_of_character(character_of_byte(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(byte_of_character(U' '), std::nullopt);
  EXPECT_EQ(byte_of_character(U'\u0144'), std::nullopt);
  EXPECT_EQ(bytes_of_token("\u0120caf\u00C3\u00A9"), " caf\u00E9");
  EXPECT_EQ(bytes_of_token("a b"), std::nullopt);
}

TEST(Unicode, WhiteSpaceIsUnicodesOwn) {
  std::u32string found;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (is_white_space(c)) found += c;
  }
  // PropList.txt of Unicode 14, White_Space
  EXPECT_EQ(found,
            (std::u32string{
                U"\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
                U"\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000"}));
}

}  // namespace
}  // namespace penstock
