#include "os/memory.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/units.h"

namespace penstock {
namespace {

TEST(AnonymousMemory, IsAlignedZeroAndWritableToItsLastByte) {
  const auto memory = AnonymousMemory::reserve(3 * kMiB + 5, OsPages::kHuge);
  ASSERT_TRUE(memory) << memory.error().message;
  const auto bytes = memory->bytes();
  EXPECT_EQ(bytes.size(), 3 * kMiB + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % (2 * kMiB), 0u);
  EXPECT_EQ(bytes.back(), std::byte{0});
  bytes.back() = std::byte{7};
}

TEST(AnonymousMemory, AbsurdSizesAreAnErrorWithTheSize) {
  const auto memory = AnonymousMemory::reserve(size_t{1} << 60, OsPages::kNormal);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::kExhausted);
}

TEST(AvailableMemory, IsSomethingBelowAPetabyte) {
  EXPECT_GT(available_memory_bytes(), kMiB);
  EXPECT_LT(available_memory_bytes(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace penstock
