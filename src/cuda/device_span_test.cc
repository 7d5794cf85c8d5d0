#include "cuda/device_span.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock {
namespace {

constexpr DeviceId kDevice{3};

TEST(DeviceSpan, PartsAndOtherTypesKeepDeviceAndAddress) {
  const DeviceSpan<float> span(kDevice, DeviceAddress{4096}, 10);
  EXPECT_EQ(span.size_bytes(), 40u);
  const auto part = span.subspan(2, 3);
  EXPECT_EQ(part.address(), DeviceAddress{4096 + 8});
  EXPECT_EQ(part.size(), 3u);
  const ConstDeviceBytes bytes = part.as<const std::byte>();
  EXPECT_EQ(bytes.size(), 12u);
  EXPECT_EQ(bytes.device(), kDevice);
  EXPECT_EQ(bytes.as<const uint16_t>().size(), 6u);
  EXPECT_TRUE(span.subspan(10, 0).empty());
}

TEST(DeviceSpan, ReadingIsAskedOfAWritableOneButNotTheReverse) {
  static_assert(std::is_convertible_v<DeviceSpan<float>, DeviceSpan<const float>>);
  static_assert(!std::is_convertible_v<DeviceSpan<const float>, DeviceSpan<float>>);
  static_assert(!std::is_convertible_v<DeviceSpan<float>, DeviceSpan<const int>>);
  const DeviceSpan<const float> reading = DeviceSpan<float>(kDevice, DeviceAddress{8}, 1);
  EXPECT_EQ(reading.address(), DeviceAddress{8});
}

TEST(DeviceSpanDeathTest, NoPartReachesPastTheEnd) {
  const DeviceSpan<float> span(kDevice, DeviceAddress{4096}, 10);
  EXPECT_DEATH(span.subspan(11, 0), "past the end");
  EXPECT_DEATH(span.subspan(9, 2), "past the end");
  EXPECT_DEATH(span.subspan(9, SIZE_MAX), "past the end");
}

TEST(DeviceSpanDeathTest, NoObjectIsCutOffOrMisaligned) {
  const ConstDeviceBytes bytes(kDevice, DeviceAddress{4096}, 10);
  EXPECT_DEATH(bytes.as<const uint32_t>(), "left over");
  EXPECT_DEATH(bytes.subspan(2, 8).as<const uint32_t>(), "not aligned");
}

}  // namespace
}  // namespace penstock
