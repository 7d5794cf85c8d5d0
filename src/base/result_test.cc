#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/units.h"

namespace penstock {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorKind::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  PENSTOCK_ASSIGN(const int once, half(value));
  PENSTOCK_TRY(half(once));
  PENSTOCK_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().message, "7 is odd");
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Result, ErrnoNamesActionPathAndReason) {
  const Error error = Error::from_errno(ENOENT, "open", "/no/such");
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_EQ(error.message, "cannot open /no/such: No such file or directory");
  EXPECT_EQ(error.in("model").message, "model: cannot open /no/such: No such file or directory");
}

TEST(Units, ReadAsPeopleWriteThem) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(98362432), "93.8 MiB");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_count(134515008), "134,515,008");
  EXPECT_EQ(format_count(12), "12");
}

}  // namespace
}  // namespace penstock
