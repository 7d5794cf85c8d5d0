#include "checkpoint/gguf_files.h"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

// File `index` of `count` with one tensor, "t<index>".
GgufFileParts part(uint32_t index, uint32_t count, int32_t n_tensors) {
  GgufFileParts parts;
  parts.keys = {gguf_key("split.no", 2, little_endian(static_cast<uint16_t>(index))),
                gguf_key("split.count", 2, little_endian(static_cast<uint16_t>(count))),
                gguf_key("split.tensors.count", 5, little_endian(n_tensors))};
  if (index == 0) parts.keys.push_back(gguf_key("general.architecture", "llama"));
  parts.add("t" + std::to_string(index), {1}, 0, little_endian(static_cast<float>(index)));
  return parts;
}

Result<GgufModel> join(const std::vector<std::string>& contents) {
  std::vector<GgufFile> files;
  for (size_t i = 0; i < contents.size(); ++i) {
    files.push_back({"part" + std::to_string(i) + ".gguf", bytes_of(contents[i])});
  }
  return join_gguf(files);
}

TEST(GgufFiles, PartsBecomeOneModel) {
  const std::vector<std::string> contents = {part(0, 2, 2).bytes(), part(1, 2, 2).bytes()};
  const std::vector<GgufFile> files = {{"a", bytes_of(contents[0])}, {"b", bytes_of(contents[1])}};
  const auto model = join_gguf(files);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->metadata["general.architecture"], "llama");
  ASSERT_NE(model->find("t1"), nullptr);
  EXPECT_EQ(model->find("t1")->file, 1u);
  EXPECT_EQ(read_gguf_floats(files, *model->find("t1")).value(), std::vector<float>{1.0F});
  EXPECT_EQ(model->find("t2"), nullptr);
}

TEST(GgufFiles, PartsThatDoNotBelongTogether) {
  GgufFileParts same_tensor = part(1, 2, 2);
  same_tensor.infos.clear();
  same_tensor.data.clear();
  same_tensor.add("t0", {1}, 0, little_endian(0.0F));
  struct {
    std::vector<std::string> files;
    const char* expected;
  } cases[] = {
      {{part(0, 3, 2).bytes(), part(1, 3, 2).bytes()},
       "part0.gguf: metadata \"split.count\" is 3, but the file's name makes it one of 2"},
      {{part(0, 2, 2).bytes(), part(0, 2, 2).bytes()},
       "part1.gguf: metadata \"split.no\" is 0, expected 1"},
      {{part(1, 2, 2).bytes(), part(0, 2, 2).bytes()},
       "part0.gguf: metadata \"split.no\" is 1, expected 0"},
      {{part(0, 2, 3).bytes(), part(1, 2, 3).bytes()},
       "\"split.tensors.count\" is 3, but the 2 files hold 2 tensors"},
      {{part(0, 2, 2).bytes(), same_tensor.bytes()}, "part1.gguf: tensor t0 is also in part0.gguf"},
      {{part(0, 2, 2).bytes()}, "\"split.count\" is 2, but the file's name makes it one of 1"},
      {{part(0, 2, 2).bytes(), "GGUF"}, "part1.gguf: the file ends inside the version"},
  };
  for (const auto& bad : cases) {
    const auto model = join(bad.files);
    ASSERT_FALSE(model) << bad.expected;
    EXPECT_NE(model.error().message.find(bad.expected), std::string::npos) << model.error().message;
  }
}

TEST(GgufFiles, AnyPartNamesAll) {
  const TempFolder folder;
  folder.write("m-00001-of-00003.gguf", "");
  folder.write("m-00002-of-00003.gguf", "");
  auto paths = gguf_split_paths(folder.path() / "m-00002-of-00003.gguf");
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(paths.error().message.find("m-00003-of-00003.gguf is missing"), std::string::npos);
  folder.write("m-00003-of-00003.gguf", "");
  paths = gguf_split_paths(folder.path() / "m-00002-of-00003.gguf");
  ASSERT_TRUE(paths);
  ASSERT_EQ(paths->size(), 3u);
  EXPECT_EQ((*paths)[0].filename(), "m-00001-of-00003.gguf");
  EXPECT_EQ((*paths)[2].filename(), "m-00003-of-00003.gguf");
}

TEST(GgufFiles, OtherNamesAreWholeModels) {
  for (const char* name :
       {"m.gguf", "00001-of-00002.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf",
        "m-0001-of-00002.gguf", "m-00001_of_00002.gguf", "m-0000x-of-00002.gguf", ".gguf"}) {
    const auto paths = gguf_split_paths(name);
    ASSERT_TRUE(paths) << name;
    EXPECT_EQ(*paths, std::vector<std::filesystem::path>{name});
  }
}

TEST(GgufFiles, FloatsMustBeFloats) {
  GgufFileParts parts;
  parts.add("half", {2}, 1, std::string(4, '\0'));
  const std::string bytes = parts.bytes();
  const std::vector<GgufFile> files = {{"a", bytes_of(bytes)}};
  const auto model = join_gguf(files);
  ASSERT_TRUE(model);
  EXPECT_EQ(read_gguf_floats(files, *model->find("half")).error().message,
            "tensor half is in format f16, expected f32");
}

}  // namespace
}  // namespace penstock
