#include "cli/table.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

Table rates() {
  Table table({{"kind"}, {"tokens", Table::Align::kRight}});
  table.add_row({"prefill", "512"});
  table.add_row({"é", "8"});
  return table;
}

TEST(Table, ColumnsAreAsWideAsTheirCells) {
  EXPECT_EQ(rates().text(80),
            "kind     tokens\n"
            "prefill     512\n"
            "é             8\n");  // a character is one column, however many bytes it has
}

TEST(Table, TheWidestColumnGivesWay) {
  Table table({{"name"}, {"n", Table::Align::kRight}});
  table.add_row({"a model with a long name", "7"});
  EXPECT_EQ(table.text(14),
            "name         n\n"
            "a model wi…  7\n");
}

TEST(Table, EndsOfLinesHaveNoSpaces) {
  Table table({{"a"}, {"b"}});
  table.add_row({"x", ""});
  EXPECT_EQ(table.text(80), "a  b\nx\n");
}

TEST(Table, AnUnreadablyNarrowTerminalStillGetsEveryColumn) {
  EXPECT_EQ(rates().text(1),
            "kind  tok…\n"
            "pre…   512\n"
            "é        8\n");
}

}  // namespace
}  // namespace penstock
