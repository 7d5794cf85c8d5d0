#include "checkpoint/pack_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/json.h"
#include "checkpoint/tiny_checkpoint_test.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

// A norm in one file, and in another an NVFP4 matrix.
PackIndex valid_index() {
  PackIndex index{.source = "made by hand",
                  .spec = tiny_moe_spec(),
                  .generation = {.eos_ids = {2}, .bos_id = 1},
                  .bos_token = "<s>",
                  .eos_token = "</s>",
                  .texts = {{.name = "tokenizer.json", .bytes = 2, .xxh3 = 0xABCDEF}},
                  .files = {{"dense.bin", 4096}, {"experts.bin", 12288}}};
  StoredTensor norm{.source_name = "norm", .rows = 1, .cols = 64, .data = {0, 0, 256}};
  StoredTensor gate{.source_name = "w1",
                    .format = Format::kNvfp4,
                    .rows = 64,
                    .cols = 64,
                    .data = {1, 4096, 2048},
                    .scales = {1, 6144, 256},
                    .scale = 0.1F};
  StoredTensor up = gate;
  up.data.offset = 6400;
  up.scales.offset = 8448;
  index.regions.push_back({{.name = "final_norm", .extent = {0, 0, 4096}, .xxh3 = ~uint64_t{0}},
                           {{"final_norm", norm}}});
  index.regions.push_back({{.name = "empty", .extent = {1, 0, 4096}, .xxh3 = 1}, {}});
  index.regions.back().tensors.push_back({"embed", norm});
  index.regions.back().tensors[0].stored.data.file = 1;
  index.regions.push_back({{.name = "layers.0.experts.0", .extent = {1, 4096, 8192}, .xxh3 = 0},
                           {{"gate", gate}, {"up", up}}});
  return index;
}

// What parsing says after `change` to the JSON of a valid index.
std::string refusal(const std::function<void(Json&)>& change) {
  Json json = *parse_json(to_text(valid_index()));
  change(json);
  const auto index = parse_pack_index(json.dump());
  return index ? "accepted" : index.error().text();
}

TEST(PackIndex, WritesAndReadsEveryField) {
  const PackIndex index = valid_index();
  const auto parsed = parse_pack_index(to_text(index));
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(*parsed, index);
}

TEST(PackIndex, ChecksumCoversTheText) {
  TestFolder folder;
  const auto path = folder.path() / "penstock.json";
  const std::string text = to_text(valid_index());
  write_file(path, text);
  EXPECT_TRUE(read_pack_index(folder.path()));

  std::string edited = text;
  edited.replace(edited.find("made by hand"), 4, "fake");
  write_file(path, edited);
  const auto refused = read_pack_index(folder.path());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr(path.string()));
  EXPECT_THAT(refused.error().text(), HasSubstr("checksum"));
  EXPECT_TRUE(parse_pack_index(edited)) << "only the checksum is wrong";
}

TEST(PackIndex, OtherVersionsAreRefusedByNumber) {
  EXPECT_THAT(refusal([](Json& json) { json["version"] = 7; }),
              HasSubstr("the pack has version 7, and this program reads version 1"));
  EXPECT_THAT(refusal([](Json& json) { json["magic"] = "pen"; }), HasSubstr("found \"pen\""));
  EXPECT_THAT(refusal([](Json& json) { json.erase("magic"); }), HasSubstr("no \"magic\""));
}

TEST(PackIndex, RegionsMustTileTheirFiles) {
  EXPECT_EQ(refusal([](Json&) {}), "accepted");
  EXPECT_THAT(refusal([](Json& json) { json["regions"][2]["offset"] = 0; }),
              HasSubstr("\"layers.0.experts.0\" begins at 0 of file 1, expected 4096"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][2]["offset"] = 8192; }),
              HasSubstr("begins at 8192"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][2]["bytes"] = 8191; }),
              HasSubstr("not a multiple of 4096"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][2]["bytes"] = uint64_t{1} << 55; }),
              HasSubstr("the regions end at"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][2]["file"] = 2; }),
              HasSubstr("expected a whole number from 0 to 1, found 2"));
  EXPECT_THAT(refusal([](Json& json) { json["files"][0]["bytes"] = 8192; }),
              HasSubstr("expected 4096 of file 0"));
  EXPECT_THAT(refusal([](Json& json) { json["files"][1]["bytes"] = 16384; }),
              HasSubstr("which has 16384 bytes"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"].erase(2); }), HasSubstr("end at 4096"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"] = Json::array(); }), HasSubstr("end at 0"));
  EXPECT_THAT(refusal([](Json& json) { json["files"] = Json::array(); }), HasSubstr("empty"));
  EXPECT_THAT(refusal([](Json& json) { std::swap(json["regions"][0], json["regions"][1]); }),
              HasSubstr("begins at 0 of file 1, expected 0 of file 0"));
}

TEST(PackIndex, TensorsMustFitTheirRegionAndShape) {
  const auto gate = [](const char* key, const Json& value) {
    return refusal([&](Json& json) { json["regions"][2]["tensors"][0][key] = value; });
  };
  EXPECT_THAT(gate("rows", 65), HasSubstr("data of nvfp4 [65, 64] have 2048 bytes, expected 2080"));
  EXPECT_THAT(gate("cols", 72), HasSubstr("nvfp4 cannot have 64 rows of 72 columns"));
  EXPECT_THAT(gate("rows", 0), HasSubstr("expected a whole number from 1"));
  EXPECT_THAT(gate("rows", -1), HasSubstr("found -1"));
  EXPECT_THAT(gate("rows", 64.5), HasSubstr("found 64.5"));
  EXPECT_THAT(gate("format", "q9_9"), HasSubstr("found \"q9_9\""));
  EXPECT_THAT(gate("format", "fp8-block"), HasSubstr("fp8-block"));
  EXPECT_THAT(gate("format", "awq4"), HasSubstr("needs group_cols above 0"));
  EXPECT_THAT(gate("data", {8000, 2048}),
              HasSubstr("[8000, 2048] is not inside the region's 8192"));
  EXPECT_THAT(gate("data", {~uint64_t{0} - 1, 2048}), HasSubstr("not inside the region"));
  EXPECT_THAT(gate("data", {0, 0}), HasSubstr("not inside the region"));
  EXPECT_THAT(gate("data", {0}), HasSubstr("expected [offset, bytes]"));
  EXPECT_THAT(gate("scales", {2000, 256}), HasSubstr("share bytes at offset 2000"));
  EXPECT_THAT(gate("zeros", {8000, 8}), HasSubstr("zeros of nvfp4"));
  EXPECT_THAT(gate("groups", {8000, 8}), HasSubstr("groups of nvfp4"));
  EXPECT_THAT(gate("scale", nullptr), HasSubstr("expected a finite number, found null"));
  EXPECT_THAT(gate("scale", 1e39), HasSubstr("found 1e+39"));
  EXPECT_THAT(gate("scale_format", "f64"), HasSubstr("expected f32, bf16, f16 or e8m0"));
  EXPECT_THAT(gate("name", "final_norm"), HasSubstr("\"final_norm\" is in two regions"));
  EXPECT_THAT(gate("name", 3), HasSubstr("expected a string"));
}

TEST(PackIndex, FilesMustStayInTheFolder) {
  for (const char* const name : {"", ".", "..", "../x", "/etc/passwd", "a\\b", "penstock.json"}) {
    EXPECT_THAT(refusal([&](Json& json) { json["files"][0]["name"] = name; }),
                HasSubstr("expected the name of a file in the pack's folder"));
    EXPECT_THAT(refusal([&](Json& json) { json["texts"][0]["name"] = name; }),
                HasSubstr("texts[0]"));
  }
  EXPECT_THAT(refusal([](Json& json) { json["texts"][0]["name"] = "dense.bin"; }),
              HasSubstr("listed twice"));
}

TEST(PackIndex, WrongTypesNameTheirField) {
  EXPECT_THAT(refusal([](Json& json) { json["regions"] = 3; }), HasSubstr("\"regions\""));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][0] = "x"; }), HasSubstr("regions[0]"));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][0]["xxh3"] = "12"; }),
              HasSubstr("expected 16 hexadecimal digits, found \"12\""));
  EXPECT_THAT(refusal([](Json& json) { json["regions"][0]["tensors"] = Json::array(); }),
              HasSubstr("\"tensors\""));
  EXPECT_THAT(refusal([](Json& json) { json["generation"]["eos_ids"] = {1, -2}; }),
              HasSubstr("\"eos_ids\""));
  EXPECT_THAT(refusal([](Json& json) { json["generation"]["bos_id"] = 1LL << 40; }),
              HasSubstr("\"bos_id\""));
  EXPECT_THAT(refusal([](Json& json) { json["spec"]["n_heads"] = "four"; }), HasSubstr("n_heads"));
  EXPECT_THAT(refusal([](Json& json) { json = Json::array(); }), HasSubstr("expected an object"));
  EXPECT_FALSE(parse_pack_index(""));
  EXPECT_FALSE(parse_pack_index(std::string(100'000, '[')));
  EXPECT_FALSE(parse_pack_index(R"({"magic": "penstock-pack", "magic": "penstock-pack"})"));
}

}  // namespace
}  // namespace penstock
