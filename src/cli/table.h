// Tables for people: columns as wide as their cells need, cut to fit the terminal.
#pragma once

#include <string>
#include <vector>

namespace penstock {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    bool is_whole = false;  // never cut: its cells are there to be copied
  };

  explicit Table(std::vector<Column> columns);

  // As many cells as there are columns; UTF-8.
  void add_row(std::vector<std::string> cells);

  // Every row on a line of at most `width` columns, where those that may be cut leave room enough.
  // What is too wide is taken from the widest of them, whose cells end in "…" where they are cut.
  std::string text(int width) const;

 private:
  std::vector<size_t> column_widths(size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock
