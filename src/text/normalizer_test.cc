// What steps.json does not show: that texts taken as normal already are so.
#include "text/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "text/unicode.h"

namespace penstock {
namespace {

std::string nfc_by_utf8proc(const std::string& text) {
  utf8proc_uint8_t* made = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), &made,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(n, 0);
  const std::string out(reinterpret_cast<char*>(made), static_cast<size_t>(n));
  std::free(made);
  return out;
}

// Each character alone, and where a shortcut might miss that it joins the one before.
TEST(Normalizer, NfcOfEveryCharacterAfterOthersIsUtf8procs) {
  const Normalizer nfc({Normalizer::Form::kNfc});
  RegexScratch scratch;
  std::string buffer;
  for (const char32_t before : {U'e', U'\u0438', U'\u304B', U'\u1100', U'\uAC00', U'\u4E00'}) {
    for (char32_t c = 0; c < 0x20000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string text;
      append_character(text, before);
      append_character(text, c);
      ASSERT_EQ(nfc.apply(text, scratch, buffer).value(), nfc_by_utf8proc(text))
          << std::hex << uint32_t{c};
    }
  }
}

TEST(Normalizer, RefusesWhatItDoesNotKnowByName) {
  const auto error_of = [](const char* json) {
    const auto value = nlohmann::json::parse(json);
    const auto made = Normalizer::from_json(&value);
    return made ? std::string() : made.error().text();
  };
  EXPECT_EQ(error_of(R"({"type": "Precompiled", "precompiled_charsmap": ""})"),
            "normalizer.type is \"Precompiled\"; supported are NFC, NFD, NFKC, NFKD, Prepend, "
            "Replace, Lowercase, Strip "
            "and Sequence");
  EXPECT_EQ(
      error_of(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend"}]})"),
      "normalizer.normalizers[1].prepend is missing; expected a string");
  EXPECT_EQ(error_of(R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})"),
            "normalizer.pattern.String is empty; expected the text to replace");
  EXPECT_EQ(error_of(R"([])"), "normalizer is an array; expected an object");
}

}  // namespace
}  // namespace penstock
