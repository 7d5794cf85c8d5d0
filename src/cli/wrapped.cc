#include "cli/wrapped.h"

namespace penstock {

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string out;
  int column = 0;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const int width = static_cast<int>(word.size());
    if (column > indent && column + 1 + width > columns) {
      out += '\n' + std::string(static_cast<size_t>(indent), ' ');
      column = indent;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out + '\n';
}

}  // namespace penstock
