#include "cli/input.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string error_of(std::string_view text) {
  const auto lists = parse_id_lists(text, "ids.json");
  return lists ? "accepted" : lists.error().message;
}

TEST(ParseIdLists, TakesListsOfIds) {
  EXPECT_EQ(*parse_id_lists("[[1, 2], [], [2147483647]]", "x"),
            (std::vector<std::vector<int32_t>>{{1, 2}, {}, {2147483647}}));
}

TEST(ParseIdLists, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(error_of("{}"), "ids.json: found object, expected a list of lists of token ids");
  EXPECT_EQ(error_of("[[1], 2]"), "ids.json: list 1 is number, expected a list of token ids");
  EXPECT_EQ(error_of("[[1], [2, -3]]"), "ids.json: list 1, place 1: found -3, expected a token id");
  EXPECT_EQ(error_of("[[2147483648]]"),
            "ids.json: list 0, place 0: found 2147483648, expected a token id");
  EXPECT_EQ(error_of("[[1.0]]"), "ids.json: list 0, place 0: found 1.0, expected a token id");
  EXPECT_TRUE(error_of("[[1]").starts_with("ids.json: "));
}

TEST(ParseStrings, RefusesOtherThings) {
  EXPECT_EQ(*parse_strings(R"(["a", ""])", "x"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(parse_strings(R"(["a", 1])", "standard input").error().message,
            "standard input: place 1 is number, expected a string");
}

TEST(ReadFile, NamesWhatIsNotThere) {
  EXPECT_EQ(read_file("/no/such/file").error().message,
            "cannot read /no/such/file: No such file or directory");
  EXPECT_EQ(read_file("/tmp").error().message, "cannot read /tmp: Is a directory");
}

}  // namespace
}  // namespace penstock
