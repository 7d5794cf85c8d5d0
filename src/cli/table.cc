#include "cli/table.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace penstock {
namespace {

constexpr size_t kGap = 2;        // columns between two columns
constexpr size_t kNarrowest = 4;  // a column is never cut below this

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

size_t width_of(std::string_view cell) {
  return static_cast<size_t>(std::ranges::count_if(cell, starts_character));
}

// The first `width` characters of `cell`, the last of them "…" when there are more.
std::string cut(const std::string& cell, size_t width) {
  if (width_of(cell) <= width) return cell;
  size_t end = 0;
  for (size_t n = 0; end < cell.size(); ++end) {
    if (starts_character(cell[end]) && ++n == width) break;
  }
  return cell.substr(0, end) + "…";
}

std::string padded(const std::string& cell, size_t width, Table::Align align) {
  const std::string space(width - width_of(cell), ' ');
  return align == Table::Align::kLeft ? cell + space : space + cell;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  PENSTOCK_CHECK(cells.size() == columns_.size(), "a row has one cell for each column");
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::column_widths(size_t width) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = width_of(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, width_of(row[c]));
    widths.push_back(widest);
  }
  size_t total = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  for (; total > width; --total) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < widths.size(); ++c) {
      if (columns_[c].is_whole || widths[c] <= kNarrowest) continue;
      if (widest == nullptr || widths[c] > *widest) widest = &widths[c];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string Table::text(int width) const {
  const std::vector<size_t> widths = column_widths(static_cast<size_t>(std::max(width, 1)));
  std::string out;
  const auto add_line = [&](auto&& cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line.append(kGap, ' ');
      line += padded(cut(cell_of(c), widths[c]), widths[c], columns_[c].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add_line([&](size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) add_line([&](size_t c) { return row[c]; });
  return out;
}

}  // namespace penstock
