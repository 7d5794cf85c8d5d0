#include "os/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

namespace fs = std::filesystem;

class PrivateFiles : public testing::Test {
 protected:
  PrivateFiles() : folder_(fs::path(testing::TempDir()) / "private_files" / test_name()) {
    fs::remove_all(folder_);
  }
  ~PrivateFiles() override { fs::remove_all(folder_); }
  static std::string test_name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  static unsigned rights(const fs::path& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777U;
  }

  const fs::path folder_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_at(const PrivateFile& file, uint64_t offset, size_t n) {
  std::string text(n, '?');
  EXPECT_TRUE(file.read(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

TEST_F(PrivateFiles, AreForThisUserAlone) {
  ASSERT_TRUE(make_private_folder(folder_ / "a" / "b"));
  EXPECT_EQ(rights(folder_ / "a" / "b"), 0700U);
  ASSERT_TRUE(make_private_folder(folder_ / "a" / "b")) << "it is there already";
  ASSERT_TRUE(open_private_file(folder_ / "a" / "b" / "file", WriteThrough::kPageCache));
  EXPECT_EQ(rights(folder_ / "a" / "b" / "file"), 0600U);
  fs::permissions(folder_ / "a" / "b" / "file", fs::perms::all);
  ASSERT_TRUE(open_private_file(folder_ / "a" / "b" / "file", WriteThrough::kPageCache));
  EXPECT_EQ(rights(folder_ / "a" / "b" / "file"), 0600U) << "whoever made it";
}

TEST_F(PrivateFiles, AreWrittenAndReadAnywhere) {
  ASSERT_TRUE(make_private_folder(folder_));
  auto opened = open_private_file(folder_ / "file", WriteThrough::kPageCache);
  ASSERT_TRUE(opened);
  PrivateFile& file = **opened;
  EXPECT_EQ(file.size(), 0U);
  ASSERT_TRUE(file.write(3, bytes_of("pen")));
  ASSERT_TRUE(file.write(6, bytes_of("stock")));
  ASSERT_TRUE(file.write(0, bytes_of("The")));
  EXPECT_EQ(text_at(file, 0, 11), "Thepenstock");
  ASSERT_TRUE(file.resize(6));
  ASSERT_TRUE(file.resize(8));
  EXPECT_EQ(text_at(file, 3, 5), std::string("pen\0\0", 5));
  EXPECT_EQ(file.size(), 8U);
}

TEST_F(PrivateFiles, SayHowFarTheyGo) {
  ASSERT_TRUE(make_private_folder(folder_));
  auto file = open_private_file(folder_ / "file", WriteThrough::kPageCache);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->write(0, bytes_of("four")));
  std::vector<std::byte> out(10);
  const auto read = (*file)->read(1, out);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("wanted 10 bytes from offset 1, got 3"), std::string::npos)
      << read.error().message;
}

TEST_F(PrivateFiles, RefuseWhatIsNoFileOrFolder) {
  ASSERT_TRUE(make_private_folder(folder_));
  EXPECT_FALSE(open_private_file(folder_, WriteThrough::kPageCache));
  ASSERT_TRUE(open_private_file(folder_ / "file", WriteThrough::kPageCache));
  EXPECT_FALSE(make_private_folder(folder_ / "file"));
  EXPECT_FALSE(make_private_folder(folder_ / "file" / "below"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(open_private_file(folder_ / "pipe", WriteThrough::kPageCache));
}

}  // namespace
}  // namespace penstock
