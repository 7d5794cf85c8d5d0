#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(bytes_of(file), file.size());
}

TEST(Safetensors, FindsEveryTensor) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16],"more":1},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("c":{"dtype":"U8","shape":[0,7],"data_offsets":[16,16]}})";
  const auto parsed = parse(raw_safetensors(header, std::string(16, 'x')));
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ(parsed->at("a").bytes, 4u) << "a scalar is one element";
  EXPECT_EQ(parsed->at("b").dtype, "BF16");
  EXPECT_EQ(parsed->at("b").shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(parsed->at("b").offset, 8 + header.size() + 4);
  EXPECT_EQ(parsed->at("b").bytes, 12u);
  EXPECT_EQ(parsed->at("c").bytes, 0u);
}

TEST(Safetensors, SpaceAroundTheHeaderIsAllowedNulBytesAreNot) {
  const std::string entry = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_TRUE(parse(raw_safetensors(" \n" + entry + "   ", "x")));
  EXPECT_FALSE(parse(raw_safetensors(entry + std::string(3, '\0'), "x")));
}

TEST(Safetensors, SubByteTypesFillBytes) {
  EXPECT_TRUE(
      parse(raw_safetensors(R"({"a":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}})", "xx")));
  EXPECT_FALSE(
      parse(raw_safetensors(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "x")));
}

struct BadHeader {
  const char* what;
  std::string file;
  const char* expected;  // part of the message
};

// The one tensor "w" with these fields, before `n_data` bytes of data.
std::string one_tensor(const std::string& fields, size_t n_data) {
  return raw_safetensors("{\"w\":{" + fields + "}}", std::string(n_data, 'x'));
}

void expect_refused(const std::vector<BadHeader>& cases) {
  for (const BadHeader& bad : cases) {
    const auto parsed = parse(bad.file);
    ASSERT_FALSE(parsed) << bad.what;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidData) << bad.what;
    EXPECT_NE(parsed.error().message.find(bad.expected), std::string::npos)
        << bad.what << ": " << parsed.error().message;
    EXPECT_LT(parsed.error().message.size(), 400u) << bad.what;
  }
}

TEST(SafetensorsBc19, SpansThatContradictTheShape) {
  expect_refused({
      {"four bytes for a million numbers",
       one_tensor(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])", 4),
       "tensor w of shape [1000, 1000] and dtype F32 has 4 bytes, expected 4000000"},
      {"reversed", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4),
       "tensor w has data_offsets [4, 0]"},
      {"negative offset", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])", 4),
       "tensor w has data_offsets [-4,0]"},
      {"fractional offset", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4.0])", 4),
       "tensor w has data_offsets [0,4.0]"},
      {"text offset", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":["0",4])", 4),
       "tensor w has data_offsets"},
      {"three offsets", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4),
       "expected a begin and an end"},
      {"no offsets at all", one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[])", 4),
       "expected a begin and an end"},
      {"past the end", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4),
       "within the file's 4 bytes of data"},
      {"offset above 2^64",
       one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999])", 4),
       "tensor w has data_offsets"},
      {"a shape whose size wraps 2^64",
       one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       "tensor w of shape [4294967296, 4294967296] is larger than any file"},
      {"overlap",
       raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                       "xxxxxx"),
       "tensor b begins at offset 2 of the data, expected 4: it overlaps another"},
      {"the same bytes twice",
       raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                       "xxxx"),
       "it overlaps another"},
      {"a hole",
       raw_safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                       "xxxxxx"),
       "tensor b begins at offset 4 of the data, expected 2: there is a hole before it"},
      {"a hole at the start", one_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])", 4),
       "expected 0: there is a hole before it"},
  });
}

TEST(SafetensorsBc20, HeadersThatAreNone) {
  const std::string good = one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])", 1);
  const auto with_length = [&](uint64_t length) { return little_endian(length) + good.substr(8); };
  ASSERT_TRUE(parse(good));
  expect_refused({
      {"no bytes", "", "the file has 0 bytes"},
      {"seven bytes", "1234567", "the file has 7 bytes"},
      {"length 0", with_length(0), "the safetensors header: invalid JSON"},
      {"length 1", with_length(1), "the safetensors header: invalid JSON"},
      {"length 2^31", with_length(uint64_t{1} << 31), "claims a header of 2147483648 bytes"},
      {"length 2^63", with_length(uint64_t{1} << 63),
       "claims a header of 9223372036854775808 bytes"},
      {"length 2^64 - 1", with_length(~uint64_t{0}), "claims a header of 18446744073709551615"},
      {"one byte longer than the file", with_length(good.size() - 8 + 1), "expected at most"},
      {"no JSON", raw_safetensors("hello", ""), "invalid JSON at line 1"},
      {"a list", raw_safetensors("[1]", ""), "header is [1], expected an object"},
      {"invalid UTF-8", raw_safetensors("{\"\xff\":1}", ""), "invalid JSON"},
      {"deep", raw_safetensors(std::string(100'000, '['), ""), "nested deeper"},
      {"an entry that is a number", raw_safetensors(R"({"w":3})", ""), "tensor w is 3"},
      {"no dtype", one_tensor(R"("shape":[1],"data_offsets":[0,1])", 1), "has no \"dtype\""},
      {"no shape", one_tensor(R"("dtype":"U8","data_offsets":[0,1])", 1), "has no \"shape\""},
      {"no data_offsets", one_tensor(R"("dtype":"U8","shape":[1])", 1), "no \"data_offsets\""},
      {"a dtype that is a number", one_tensor(R"("dtype":8,"shape":[1],"data_offsets":[0,1])", 1),
       "dtype that is 8"},
      {"a shape that is text", one_tensor(R"("dtype":"U8","shape":"1","data_offsets":[0,1])", 1),
       "tensor w has shape \"1\""},
      {"the same name twice",
       raw_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                       "x"),
       "JSON key \"a\" occurs twice"},
      {"metadata that is no map of strings", raw_safetensors(R"({"__metadata__":{"a":1}})", ""),
       "\"__metadata__\" is no map"},
      {"metadata that is a list", raw_safetensors(R"({"__metadata__":[]})", ""),
       "\"__metadata__\" is no map"},
      {"a shape of ten thousand lists",
       one_tensor(
           R"("dtype":"U8","data_offsets":[0,1],"shape":[)" +
               [] {
                 std::string lists = "[]";
                 for (int i = 0; i < 10'000; ++i) lists += ",[]";
                 return lists;
               }() +
               "]",
           1),
       "..., expected a list of whole numbers"},
  });
}

// The reference reader refuses the whole file; so would nobody who does not need the tensor.
TEST(SafetensorsBc20, UnknownDtypeIsKeptForWhoNeedsIt) {
  const auto parsed = parse(one_tensor(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])", 16));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->at("w").dtype, "F128");
  EXPECT_FALSE(safetensors_dtype_bits("F128"));
}

TEST(SafetensorsBc21, BytesAfterTheLastTensorAreRefused) {
  expect_refused(
      {{"eight stray bytes", one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])", 1 + 8),
        "but the file has"}});
}

TEST(SafetensorsBc23, NegativeDimensionsAreRefusedEmptyTensorsAreNot) {
  EXPECT_TRUE(parse(one_tensor(R"("dtype":"F32","shape":[4,0],"data_offsets":[0,0])", 0)));
  expect_refused(
      {{"shape [-1]", one_tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,0])", 0),
        "tensor w has shape [-1]"}});
}

TEST(Safetensors, EveryTruncationOfAGoldenIsAnError) {
  const std::string file = read_bytes(kGoldenFolder / "models/qwen3/model.safetensors");
  ASSERT_TRUE(parse(file));
  for (size_t size = 0; size < 4096; ++size) {
    EXPECT_FALSE(parse(file.substr(0, size))) << size;
  }
  EXPECT_FALSE(parse(file.substr(0, file.size() - 1)));
}

TEST(Safetensors, ReadingTakesTheHeaderFromTheFile) {
  const TempFolder folder;
  const auto path = folder.write("a.safetensors",
                                 one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])", 3));
  const auto file = File::open(path);
  ASSERT_TRUE(file);
  const auto header = read_safetensors_header(*file);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->at("w").bytes, 3u);

  const auto cut = folder.write("cut.safetensors", read_bytes(path).substr(0, 5));
  const auto cut_file = File::open(cut);
  ASSERT_TRUE(cut_file);
  const auto refused = read_safetensors_header(*cut_file);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with(cut.string())) << refused.error().message;
}

}  // namespace
}  // namespace penstock
