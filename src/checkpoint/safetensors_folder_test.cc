#include "checkpoint/safetensors_folder.h"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

std::string shard_with(const std::string& tensor) {
  SafetensorsFile file;
  file.tensors[tensor] = {"U8", {4}, "abcd"};
  return file.bytes();
}

// Two shards, "a" in the first, "b" in the second, and an index with this weight_map.
void write_shards(const TempFolder& folder, const std::string& weight_map) {
  folder.write("one.safetensors", shard_with("a"));
  folder.write("two.safetensors", shard_with("b"));
  folder.write("model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
}

TEST(SafetensorsFolder, ReadsWhatTheIndexLists) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"one.safetensors","b":"two.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->files.size(), 2u);
  ASSERT_NE(read->find("b"), nullptr);
  EXPECT_EQ(read->files[read->find("b")->file].path().filename(), "two.safetensors");
  EXPECT_EQ(read->find("c"), nullptr);
  EXPECT_TRUE(read->notes.empty());
}

TEST(SafetensorsFolderBc22, TheIndexMayNameFilesOfTheFolderOnly) {
  for (const char* name : {"\"../one.safetensors\"", "\"/etc/passwd\"", "\"sub/one.safetensors\"",
                           R"("..\\one.safetensors")", "\"..\"", "\".\"", "\"\"", "7", "null", "[]",
                           R"("one\u0000.safetensors")"}) {
    const TempFolder folder;
    write_shards(folder, std::string(R"({"a":)") + name + "}");
    const auto read = read_safetensors_folder(folder.path());
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalidData) << name;
    EXPECT_NE(read.error().message.find("tensor a is said to be in"), std::string::npos)
        << read.error().message;
  }
}

TEST(SafetensorsFolderBc22, AnAbsentShardIsNamed) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"one.safetensors","b":"three.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(read.error().message.find("three.safetensors is missing"), std::string::npos);
  EXPECT_NE(read.error().message.find("tensor b"), std::string::npos);
}

TEST(SafetensorsFolderBc22, AKeyTwiceIsRefused) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"one.safetensors","a":"two.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("\"a\" occurs twice"), std::string::npos);
}

TEST(SafetensorsFolderBc22, AShardTheIndexDoesNotListIsReportedAndIgnored) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"one.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors.size(), 1u);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_NE(read->notes[0].find("two.safetensors is not used"), std::string::npos);
}

TEST(SafetensorsFolder, ATensorTheIndexDoesNotListIsReportedAndIgnored) {
  const TempFolder folder;
  SafetensorsFile file;
  file.tensors["a"] = {"U8", {1}, "x"};
  file.tensors["stray"] = {"U8", {1}, "x"};
  folder.write("one.safetensors", file.bytes());
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors"}})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->find("stray"), nullptr);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_NE(read->notes[0].find("1 tensor"), std::string::npos) << read->notes[0];
}

TEST(SafetensorsFolder, AnIndexThatPointsToTheWrongShardNamesBoth) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"two.safetensors","b":"one.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_NE(
      read.error().message.find("tensor a is in two.safetensors, but it is in one.safetensors"),
      std::string::npos)
      << read.error().message;
}

TEST(SafetensorsFolder, AnIndexedTensorThatNoFileHas) {
  const TempFolder folder;
  write_shards(folder, R"({"a":"one.safetensors","c":"two.safetensors"})");
  const auto read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("tensor c is in two.safetensors, but no file has it"),
            std::string::npos)
      << read.error().message;
}

TEST(SafetensorsFolder, IndexesThatAreNone) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":"a"})", "nul"}) {
    EXPECT_FALSE(parse_safetensors_index(text)) << text;
  }
}

TEST(SafetensorsFolderBc18, ATruncatedShardIsRefusedWithBothSizes) {
  const TempFolder folder;
  const auto model = folder.copy_golden("models/qwen3_sharded");
  const auto shard = model / "model-00002-of-00003.safetensors";
  const auto size = std::filesystem::file_size(shard);
  std::filesystem::resize_file(shard, size - 100);
  auto read = read_safetensors_folder(model);
  ASSERT_FALSE(read);
  EXPECT_TRUE(read.error().message.starts_with(shard.string())) << read.error().message;
  EXPECT_NE(read.error().message.find("data_offsets"), std::string::npos) << read.error().message;

  std::filesystem::resize_file(shard, 0);
  read = read_safetensors_folder(model);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            shard.string() + ": the file has 0 bytes, expected a safetensors header of 8 or more");
}

TEST(SafetensorsFolder, AFolderWithoutWeightsSaysWhatItLookedFor) {
  const TempFolder folder;
  auto read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(read.error().message.find("model.safetensors nor model.safetensors.index.json"),
            std::string::npos);
  folder.write("other.safetensors", shard_with("a"));
  read = read_safetensors_folder(folder.path());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("only other.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace penstock
