#include "text/jinja/wordwrap.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace penstock {
namespace {

using Chunk = std::u32string_view;

bool is_blank(char32_t c) { return c == U' ' || (c >= U'\t' && c <= U'\r'); }
bool is_letter(char32_t c) { return py_is_word(c) && !py_is_decimal(c); }
bool ends_word(char32_t c) {
  return py_is_word(c) || std::u32string_view(U"!\"'&.,?").find(c) != std::u32string_view::npos;
}

// Cuts a text into words and the blanks between them; with hyphens also behind those inside words,
// and around dashes: "goof-ball" is "goof-" and "ball", "a--b" is "a", "--" and "b".
class Splitter {
 public:
  Splitter(Chunk text, bool at_hyphens) : text_(text), at_hyphens_(at_hyphens) {}

  std::vector<Chunk> run() const {
    std::vector<Chunk> chunks;
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = end_of_chunk(begin);
      chunks.push_back(text_.substr(begin, end - begin));
      begin = end;
    }
    return chunks;
  }

 private:
  bool letter_at(size_t at) const { return at < text_.size() && is_letter(text_[at]); }
  bool hyphen_at(size_t at) const { return at < text_.size() && text_[at] == U'-'; }

  // The end of two or more dashes at `at` that a word follows, or `at`.
  size_t end_of_dashes(size_t at) const {
    size_t end = at;
    while (hyphen_at(end)) ++end;
    const bool is_dash = end >= at + 2 && end < text_.size() && py_is_word(text_[end]);
    return is_dash ? end : at;
  }

  // Whether the hyphen at `at` stands inside a word that may be cut behind it.
  bool is_cut_at(size_t at) const {
    const bool two_letters = at >= 2 && letter_at(at - 1) && letter_at(at - 2);
    const bool letter_each = at >= 3 && letter_at(at - 1) && hyphen_at(at - 2) && letter_at(at - 3);
    const bool goes_on =
        letter_at(at + 1) && (letter_at(at + 2) || (hyphen_at(at + 2) && letter_at(at + 3)));
    return (two_letters || letter_each) && goes_on;
  }

  size_t end_of_chunk(size_t begin) const {
    size_t end = begin;
    if (is_blank(text_[begin])) {
      while (end < text_.size() && is_blank(text_[end])) ++end;
      return end;
    }
    if (at_hyphens_ && begin > 0 && ends_word(text_[begin - 1])) {
      if (const size_t dashes = end_of_dashes(begin); dashes > begin) return dashes;
    }
    for (end = begin + 1; end < text_.size() && !is_blank(text_[end]); ++end) {
      if (!at_hyphens_ || text_[end] != U'-') continue;
      if (is_cut_at(end)) return end + 1;
      if (ends_word(text_[end - 1]) && end_of_dashes(end) > end) break;
    }
    return end;
  }

  Chunk text_;
  bool at_hyphens_;
};

bool is_all_space(Chunk chunk) { return std::ranges::all_of(chunk, py_is_space); }

// How much of a word too long for a line goes on one that has `space` left.
size_t cut_of_long_word(Chunk word, size_t space, bool at_hyphens) {
  if (!at_hyphens || word.size() <= space || space == 0) return std::min(space, word.size());
  const size_t hyphen = word.rfind(U'-', space - 1);
  if (hyphen == Chunk::npos || hyphen == 0) return space;
  const bool has_other =
      std::ranges::any_of(word.substr(0, hyphen), [](char32_t c) { return c != U'-'; });
  return has_other ? hyphen + 1 : space;
}

std::string encoded(const std::vector<Chunk>& chunks) {
  std::string out;
  for (const Chunk chunk : chunks) {
    for (const char32_t c : chunk) py_append_character(out, c);
  }
  return out;
}

}  // namespace

std::vector<std::string> wrap_line(std::string_view line, const WordWrap& wrap) {
  std::u32string text;
  for (size_t at = 0; at < line.size();) text += py_next_character(line, at);
  std::vector<Chunk> chunks = Splitter(text, wrap.break_on_hyphens).run();
  std::vector<std::string> lines;
  for (size_t next = 0; next < chunks.size();) {
    if (!lines.empty() && is_all_space(chunks[next])) ++next;
    std::vector<Chunk> current;
    size_t length = 0;
    while (next < chunks.size() && length + chunks[next].size() <= wrap.width) {
      length += chunks[next].size();
      current.push_back(chunks[next++]);
    }
    if (next < chunks.size() && chunks[next].size() > wrap.width) {
      if (wrap.break_long_words) {
        const size_t cut =
            cut_of_long_word(chunks[next], wrap.width - length, wrap.break_on_hyphens);
        current.push_back(chunks[next].substr(0, cut));
        chunks[next].remove_prefix(cut);
      } else if (current.empty()) {
        current.push_back(chunks[next++]);
      }
    }
    if (!current.empty() && is_all_space(current.back())) current.pop_back();
    if (!current.empty()) lines.push_back(encoded(current));
  }
  return lines;
}

}  // namespace penstock
