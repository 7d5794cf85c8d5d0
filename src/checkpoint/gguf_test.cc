#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/test_files.h"

namespace penstock {
namespace {

Result<GgufHeader> parse(const std::string& file) { return parse_gguf(bytes_of(file)); }

// One f32 tensor "w" of four numbers.
GgufFileParts one_tensor() {
  GgufFileParts parts;
  parts.add("w", {4}, 0, std::string(16, 'w'));
  return parts;
}

template <class T>
std::string gguf_array(uint32_t type, const std::vector<T>& values) {
  std::string bytes = little_endian(type) + little_endian<uint64_t>(values.size());
  for (const T& value : values) bytes += little_endian(value);
  return bytes;
}

TEST(Gguf, ReadsEveryKindOfValue) {
  GgufFileParts parts;
  parts.keys = {
      gguf_key("u8", 0, little_endian<uint8_t>(200)),
      gguf_key("i8", 1, little_endian<int8_t>(-100)),
      gguf_key("u16", 2, little_endian<uint16_t>(60'000)),
      gguf_key("i16", 3, little_endian<int16_t>(-30'000)),
      gguf_key("u32", 4, little_endian<uint32_t>(4'000'000'000)),
      gguf_key("i32", 5, little_endian<int32_t>(-2'000'000'000)),
      gguf_key("f32", 6, little_endian(0.5F)),
      gguf_key("false", 7, std::string(1, '\0')),
      gguf_key("true", 7, "\x01"),
      gguf_key("string", 8, gguf_string("text \xC3\xA9")),
      gguf_key("u64", 10, little_endian(std::numeric_limits<uint64_t>::max())),
      gguf_key("i64", 11, little_endian(std::numeric_limits<int64_t>::min())),
      gguf_key("f64", 12, little_endian(0.1)),
      gguf_key("list", 9, gguf_array<int16_t>(3, {-1, 0, 1})),
      gguf_key("strings", 9,
               little_endian(uint32_t{8}) + little_endian<uint64_t>(2) + gguf_string("a") +
                   gguf_string("")),
      gguf_key("empty", 9, gguf_array<uint8_t>(0, {})),
  };
  const auto header = parse(parts.bytes());
  ASSERT_TRUE(header) << header.error().message;
  const Json& json = header->metadata;
  EXPECT_EQ(json["u8"], 200);
  EXPECT_EQ(json["i8"], -100);
  EXPECT_EQ(json["u16"], 60'000);
  EXPECT_EQ(json["i16"], -30'000);
  EXPECT_EQ(json["u32"], 4'000'000'000);
  EXPECT_EQ(json["i32"], -2'000'000'000);
  EXPECT_EQ(json["f32"], 0.5);
  EXPECT_EQ(json["false"], false);
  EXPECT_EQ(json["true"], true);
  EXPECT_EQ(json["string"], "text \u00e9");
  EXPECT_EQ(json["u64"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(json["i64"], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json["f64"], 0.1);
  EXPECT_EQ(json["list"], Json::array({-1, 0, 1}));
  EXPECT_EQ(json["strings"], Json::array({"a", ""}));
  EXPECT_EQ(json["empty"], Json::array());
}

TEST(Gguf, PlacesTensorsForAnyAlignment) {
  for (const uint32_t alignment : {1u, 8u, 32u, 64u, 4096u}) {
    for (const uint32_t version : {2u, 3u}) {
      GgufFileParts parts{.version = version, .alignment = alignment};
      parts.keys.push_back(gguf_key("general.alignment", alignment));
      parts.add("first", {3}, 0, std::string(12, 'a'));
      parts.add("second", {32, 2}, 8, std::string(2 * 34, 'b'));
      const std::string file = parts.bytes();
      const auto header = parse(file);
      ASSERT_TRUE(header) << alignment << ": " << header.error().message;
      ASSERT_EQ(header->tensors.size(), 2u);
      EXPECT_EQ(file.substr(header->tensors[0].offset, header->tensors[0].bytes),
                std::string(12, 'a'));
      EXPECT_EQ(file.substr(header->tensors[1].offset, header->tensors[1].bytes),
                std::string(68, 'b'));
      EXPECT_EQ(header->tensors[1].type->format, Format::kQ8_0);
      EXPECT_EQ(header->tensors[1].dims, (std::vector<uint64_t>{32, 2}));
    }
  }
}

TEST(Gguf, TypesOfGgmlHaveTheSizesOfTheirFormats) {
  int n_formats = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const GgmlType* type = find_ggml_type(id);
    if (type == nullptr || !type->format) continue;
    ++n_formats;
    EXPECT_EQ(type->block, info(*type->format).group) << type->name;
    EXPECT_EQ(type->bytes, info(*type->format).group_bytes) << type->name;
  }
  EXPECT_EQ(n_formats, 17) << "f32 f16 bf16, fourteen kinds of blocks";
  for (const uint32_t retired : {4u, 5u, 9u, 15u, 31u, 32u, 33u, 36u, 37u, 38u, 42u, 1000u}) {
    EXPECT_EQ(find_ggml_type(retired), nullptr) << retired;
  }
}

struct BadFile {
  const char* what;
  std::string file;
  const char* expected;  // part of the message
};

void expect_refused(const std::vector<BadFile>& cases) {
  for (const BadFile& bad : cases) {
    const auto header = parse(bad.file);
    ASSERT_FALSE(header) << bad.what;
    EXPECT_NE(header.error().message.find(bad.expected), std::string::npos)
        << bad.what << ": " << header.error().message;
  }
}

GgufFileParts with_key(const std::string& key) {
  GgufFileParts parts = one_tensor();
  parts.keys.push_back(key);
  return parts;
}
GgufFileParts with_info(const std::string& info) {
  GgufFileParts parts;
  parts.infos.push_back(info);
  parts.data = std::string(64, 'x');
  return parts;
}
// The header's fixed part with these counts.
std::string with_counts(uint64_t n_tensors, uint64_t n_keys) {
  return "GGUF" + little_endian(uint32_t{3}) + little_endian(n_tensors) + little_endian(n_keys);
}

TEST(Gguf, FilesThatAreNone) {
  ASSERT_TRUE(parse(one_tensor().bytes()));
  GgufFileParts version1 = one_tensor();
  version1.version = 1;
  GgufFileParts version4 = one_tensor();
  version4.version = 4;
  GgufFileParts big_endian = one_tensor();
  big_endian.version = 0x03000000;
  expect_refused({
      {"empty", "", "the file ends inside the magic"},
      {"three bytes", "GGU", "the file ends inside the magic"},
      {"other magic", "GGML" + one_tensor().bytes().substr(4), "does not begin with \"GGUF\""},
      {"version 1", version1.bytes(), "GGUF version is 1, expected 2 or 3"},
      {"version 4", version4.bytes(), "GGUF version is 4, expected 2 or 3"},
      {"version 0", "GGUF" + std::string(20, '\0'), "GGUF version is 0"},
      {"big endian", big_endian.bytes(), "big-endian"},
      {"no counts", with_counts(0, 0).substr(0, 12), "inside the count of tensors"},
      {"2^63 tensors", with_counts(uint64_t{1} << 63, 0), "the count of tensors is 92233"},
      {"2^63 keys", with_counts(0, uint64_t{1} << 63), "the count of metadata keys is 92233"},
      {"2^20 tensors in no bytes", with_counts(1 << 20, 0), "claims 1048576 tensors, but only 0"},
      {"2^20 keys in no bytes", with_counts(0, 1 << 20), "claims 1048576 metadata keys, but only"},
  });
}

TEST(Gguf, MetadataThatLies) {
  expect_refused({
      {"value type 13", with_key(gguf_key("k", 13, "xxxx")).bytes(),
       "metadata \"k\" has value type 13"},
      {"array of arrays", with_key(gguf_key("k", 9, little_endian(uint32_t{9}))).bytes(),
       "metadata \"k\" is an array of arrays"},
      {"array of type 99", with_key(gguf_key("k", 9, gguf_array<uint8_t>(99, {1}))).bytes(),
       "metadata \"k\" has value type 99"},
      {"array of 2^60",
       with_key(gguf_key("k", 9, little_endian(uint32_t{0}) + little_endian(uint64_t{1} << 60)))
           .bytes(),
       "metadata \"k\" claims 1152921504606846976 elements, expected at most"},
      {"array of strings longer than the file",
       with_key(
           gguf_key("k", 9,
                    little_endian(uint32_t{8}) + little_endian<uint64_t>(20) + gguf_string("a")))
           .bytes(),
       "metadata \"k\""},
      {"bool of 2", with_key(gguf_key("k", 7, "\x02")).bytes(),
       "metadata \"k\" is 2, expected a truth value"},
      {"string of 2^60",
       with_key(gguf_key("k", 8, little_endian(uint64_t{1} << 60) + "text")).bytes(),
       "metadata \"k\" claims 1152921504606846976 bytes"},
      {"string that is no text", with_key(gguf_key("k", 8, gguf_string("\xff"))).bytes(),
       "metadata \"k\" is not UTF-8"},
      {"key that is no text", with_key(gguf_key("\xff", 7u)).bytes(),
       "metadata key 0 is not UTF-8"},
      {"key of 65536 bytes", with_key(gguf_key(std::string(65536, 'k'), 7u)).bytes(),
       "metadata key 0 claims 65536 bytes, expected at most 65535"},
      {"key twice",
       [] {
         GgufFileParts parts = with_key(gguf_key("k", 7u));
         parts.keys.push_back(gguf_key("k", 7u));
         return parts.bytes();
       }(),
       "metadata \"k\" occurs twice"},
  });
}

TEST(GgufBc24, EachFieldThatLiesIsNamed) {
  const uint64_t top = uint64_t{1} << 63;
  expect_refused({
      {"alignment 0", with_key(gguf_key("general.alignment", 0u)).bytes(),
       "\"general.alignment\" is 0, expected a power of two"},
      {"alignment 48", with_key(gguf_key("general.alignment", 48u)).bytes(),
       "\"general.alignment\" is 48"},
      {"alignment that is text", with_key(gguf_key("general.alignment", "32")).bytes(),
       "\"general.alignment\" is \"32\""},
      {"alignment below 0", with_key(gguf_key("general.alignment", 5, little_endian(-32))).bytes(),
       "\"general.alignment\" is -32"},
      {"9 dimensions", with_info(gguf_info("w", std::vector<uint64_t>(9, 1), 0, 0)).bytes(),
       "tensor w has 9 dimensions, expected 1 to 4"},
      {"no dimensions", with_info(gguf_info("w", {}, 0, 0)).bytes(), "tensor w has 0 dimensions"},
      {"2^32 - 1 dimensions",
       with_info(gguf_string("w") + little_endian(~uint32_t{0}) + std::string(40, 'x')).bytes(),
       "tensor w has 4294967295 dimensions"},
      {"key of 2^60 bytes", with_counts(0, 1) + little_endian(uint64_t{1} << 60) + "0123456789",
       "metadata key 0 claims 1152921504606846976 bytes, expected at most 10"},
      {"name of 2^60 bytes",
       with_counts(1, 0) + little_endian(uint64_t{1} << 60) + std::string(40, 'x'),
       "the name of tensor 0 claims 1152921504606846976 bytes"},
      {"offset past the end", with_info(gguf_info("w", {4}, 0, 4096)).bytes(),
       "tensor w has 16 bytes at offset 4096 of the data, but the file's"},
      {"end past the end", with_info(gguf_info("w", {100}, 0, 0)).bytes(), "leave room for 64"},
      {"offset that wraps 2^64", with_info(gguf_info("w", {4}, 0, ~uint64_t{31})).bytes(),
       "tensor w has 16 bytes at offset 18446744073709551584"},
      {"odd offset", with_info(gguf_info("w", {4}, 0, 8)).bytes(),
       "tensor w is at offset 8, expected a multiple of 32"},
      {"shape that wraps 2^64", with_info(gguf_info("w", {top, 4}, 0, 0)).bytes(),
       "tensor w of shape [9223372036854775808, 4] is larger than any file"},
      {"part of a block", with_info(gguf_info("w", {33}, 8, 0)).bytes(),
       "tensor w has rows of 33 elements, expected a multiple of 32 for type q8_0"},
      {"unknown type", with_info(gguf_info("w", {4}, 99, 0)).bytes(), "tensor w has type 99"},
      {"retired type", with_info(gguf_info("w", {32}, 4, 0)).bytes(), "tensor w has type 4"},
  });
}

TEST(Gguf, TensorsMustBeApart) {
  GgufFileParts twice = one_tensor();
  twice.add("w", {4}, 0, std::string(16, 'x'));
  GgufFileParts over;
  over.infos = {gguf_info("a", {16}, 0, 0), gguf_info("b", {4}, 0, 32)};
  over.data = std::string(64, 'x');
  expect_refused({
      {"one name twice", twice.bytes(), "tensor w occurs twice"},
      {"one inside another", over.bytes(), "inside tensor a"},
  });
}

TEST(GgufBc23, AnEmptyTensorDividesNothingByZero) {
  const auto header = parse(with_info(gguf_info("w", {4, 0}, 0, 0)).bytes());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors[0].bytes, 0u);
}

TEST(GgufBc30, TheLastTensorNeedsNoPadding) {
  GgufFileParts parts;
  parts.add("w", {3}, 0, std::string(12, 'x'));
  EXPECT_TRUE(parse(parts.bytes()));
  EXPECT_FALSE(parse(parts.bytes().substr(0, parts.bytes().size() - 1)));
}

TEST(Gguf, EveryTruncationOfAGoldenIsAnError) {
  const std::string file = read_bytes(kGoldenFolder / "gguf/llama-q4_0.gguf");
  ASSERT_TRUE(parse(file));
  for (size_t size = 0; size < 4096; ++size) EXPECT_FALSE(parse(file.substr(0, size))) << size;
}

TEST(GgufMetadata, TypedReadsNameTheKey) {
  const Json json = {{"n", 7},          {"big", ~uint64_t{0}},
                     {"f", 0.5},        {"s", "text"},
                     {"b", true},       {"same", {4, 4, 4}},
                     {"mixed", {4, 8}}, {"none", Json::array()},
                     {"p.a", 1},        {"p.b", 2}};
  const GgufMetadata metadata(json);
  EXPECT_EQ(metadata.integer("n", 0, 10).value(), 7);
  EXPECT_EQ(metadata.integer("absent", 0, 10).value(), std::nullopt);
  EXPECT_EQ(metadata.integer_of_all_layers("n", 0, 10).value(), 7);
  EXPECT_EQ(metadata.integer_of_all_layers("same", 0, 10).value(), 4);
  EXPECT_EQ(metadata.number("f").value(), 0.5);
  EXPECT_EQ(metadata.number("n").value(), 7.0);
  EXPECT_EQ(metadata.boolean("b").value(), true);
  EXPECT_EQ(metadata.string("s").value(), "text");
  EXPECT_EQ(metadata.below("p."), Json({{"a", 1}, {"b", 2}}));
  EXPECT_TRUE(metadata.below("q.").is_null());

  EXPECT_EQ(metadata.integer("n", 8, 10).error().message,
            "metadata \"n\" is 7, expected a whole number from 8 to 10");
  EXPECT_FALSE(metadata.integer("big", 0, std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(metadata.integer("f", 0, 10));
  EXPECT_FALSE(metadata.integer("same", 0, 10));
  EXPECT_EQ(metadata.integer_of_all_layers("mixed", 0, 10).error().kind, ErrorKind::kUnsupported);
  EXPECT_FALSE(metadata.integer_of_all_layers("none", 0, 10));
  EXPECT_FALSE(metadata.number("s"));
  EXPECT_FALSE(metadata.boolean("n"));
  EXPECT_FALSE(metadata.string("n"));
}

}  // namespace
}  // namespace penstock
