#include "cli/api_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace penstock {
namespace {

TEST(ApiKeys, AreTakenOutOfTheArguments) {
  std::vector<std::string> typed = {"penstock",  "serve",          "m.gguf",      "--api-key",
                                    "sk-secret", "--api-key=sk-2", "--name",      "sk-name",
                                    "--api-key", "--api-key",      "--api-key-f", "--api-key"};
  std::vector<char*> argv;
  for (std::string& argument : typed) argv.push_back(argument.data());
  const std::vector<std::string> before = typed;
  EXPECT_EQ(take_arguments(static_cast<int>(argv.size()), argv.data()), before);
  EXPECT_EQ(typed, (std::vector<std::string>{
                       "penstock", "serve", "m.gguf", "--api-key", "xxxxxxxxx", "--api-key=xxxx",
                       "--name", "sk-name", "--api-key", "xxxxxxxxx", "--api-key-f", "--api-key"}));
}

class KeyFile {
 public:
  explicit KeyFile(std::string_view text)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("penstock-keys-{}", ::getpid())) {
    std::ofstream(path_) << text;
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  Result<std::vector<std::string>> read() const { return read_key_file(path_); }

 private:
  std::filesystem::path path_;
};

TEST(ApiKeys, AFileHasOneOnEachLine) {
  EXPECT_EQ(KeyFile("# for the editor\nsk-1\r\n\n  sk-2 \n\t\nsk-3").read().value(),
            (std::vector<std::string>{"sk-1", "sk-2", "sk-3"}));
}

TEST(ApiKeys, AFileWithoutKeysIsRefusedForItMustNotOpenTheServer) {
  EXPECT_FALSE(KeyFile("").read());
  EXPECT_FALSE(KeyFile("# none yet\n\n").read());
  EXPECT_FALSE(read_key_file("/no/such/file"));
}

TEST(ApiKeys, ErrorsNameTheLineAndNoKey) {
  const auto keys = KeyFile("sk-1\nsk secret\n").read();
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().message.find("line 2"), std::string::npos);
  EXPECT_EQ(keys.error().message.find("secret"), std::string::npos);
  EXPECT_TRUE(check_keys({"sk-1", "x"}, "--api-key"));
  for (const std::string wrong : {"", "a b", "a\n", "\xC3\xB6"}) {
    const auto refused = check_keys({"sk-1", wrong}, "--api-key");
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().message.find("sk-1"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
