#include "os/scratch_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "os/direct_io.h"
#include "os/fake_root_test.h"
#include "os/memory.h"

namespace penstock {
namespace {

TEST(ScratchFile, HasNoNameAndCanBeReadDirectly) {
  const FakeRoot folder;
  auto file = ScratchFile::create(folder.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::vector<std::byte> bytes(2 * kDirectAlignment, std::byte{7});
  ASSERT_TRUE(file->append(bytes));
  ASSERT_TRUE(file->settle());
  EXPECT_EQ(file->bytes(), bytes.size());

  const auto again = DirectFile::open(file->path());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->size(), bytes.size());
  const auto queue = ReadQueue::make().value();
  const auto memory = AnonymousMemory::reserve(bytes.size(), OsPages::kNormal).value();
  const ReadRequest request = {.file = &*again, .offset = 0, .out = memory.bytes()};
  ASSERT_TRUE(queue->submit(std::array{request}).wait());
  EXPECT_EQ(memory.bytes().back(), std::byte{7});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ScratchFile, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const FakeRoot folder;
  const auto file = ScratchFile::create(folder.path() / "none");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find((folder.path() / "none").string()), std::string::npos);
}

}  // namespace
}  // namespace penstock
