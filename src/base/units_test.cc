#include "base/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace penstock {
namespace {

TEST(ParseBytes, ReadsSizesAsPeopleWriteThem) {
  const std::pair<const char*, uint64_t> sizes[] = {
      {"8", 8 * kGiB},
      {"0", 0},
      {"7.5GiB", 7 * kGiB + 512 * kMiB},
      {"7.5", 7 * kGiB + 512 * kMiB},
      {"512MiB", 512 * kMiB},
      {"512 mib", 512 * kMiB},
      {"64K", 64 * kKiB},
      {"2T", 2048 * kGiB},
      {"24GB", 24'000'000'000},
      {"1kb", 1000},
      {"4096B", 4096},
      {".5k", 512},
      {"0.0001KiB", 0},
      {"9007199254740993b", 9007199254740993},
      {"18446744073709551615B", std::numeric_limits<uint64_t>::max()},
  };
  for (const auto& [text, bytes] : sizes) {
    const auto parsed = parse_bytes(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseBytes, WhatIsNoSizeIsAnErrorThatSaysHowToWriteOne) {
  for (const char* text : {"",
                           " ",
                           ".",
                           "GiB",
                           "-1",
                           "+1",
                           "1e3",
                           "1.2.3",
                           "0x10",
                           "nan",
                           "inf",
                           " 8",

                           "8GiBB",
                           "8Gi",
                           "8X",
                           "8 G B",
                           "1,5",
                           "18446744073709551616B",
                           "17179869184",
                           "99999999999999999999",
                           "16777216.5TiB"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text << " is " << *parsed;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
  }
  EXPECT_EQ(parse_bytes("much").error().message,
            "\"much\" is no size: expected a number and B, KiB, MiB, GiB or TiB, as in 512MiB or "
            "7.5GiB; a bare number is in GiB");
}

}  // namespace
}  // namespace penstock
