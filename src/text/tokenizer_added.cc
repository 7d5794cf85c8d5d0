#include "text/tokenizer_added.h"

#include <algorithm>

#include "text/unicode.h"

namespace penstock {
namespace {

uint32_t to_offset(size_t n) { return static_cast<uint32_t>(n); }

bool stands_alone(std::string_view before, std::string_view after) {
  if (!before.empty() && is_word_character(last_character(before))) return false;
  return after.empty() || !is_word_character(take_character(after));
}

size_t white_space_at_end(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const std::string_view rest = text.substr(0, text.size() - n);
    const char32_t last = last_character(rest);
    if (!is_white_space(last)) break;
    n += last < 0x80 ? 1 : last < 0x800 ? 2 : 3;  // no white space lies above U+FFFF
  }
  return n;
}

size_t white_space_at_start(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    if (!is_white_space(take_character(after))) break;
    rest = after;
  }
  return text.size() - rest.size();
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1), roots_(256, 0) {
  for (size_t i = 0; i < tokens_.size(); ++i) insert(tokens_[i].text, static_cast<int32_t>(i));
}

void AddedTokenFinder::insert(std::string_view text, int32_t token) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t next = child_of(node, byte);
    if (next == 0) {
      next = to_offset(nodes_.size());
      nodes_.push_back({.sibling = nodes_[node].child, .byte = byte});
      nodes_[node].child = next;
      if (node == 0) roots_[static_cast<uint8_t>(byte)] = next;
    }
    node = next;
  }
  nodes_[node].token = token;
}

uint32_t AddedTokenFinder::child_of(uint32_t node, char byte) const {
  if (node == 0) return roots_[static_cast<uint8_t>(byte)];
  uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (const char byte : text) {
    node = child_of(node, byte);
    if (node == 0) break;
    if (nodes_[node].token >= 0) longest = &tokens_[static_cast<size_t>(nodes_[node].token)];
  }
  return longest;
}

void AddedTokenFinder::cut(std::string_view text, bool parse_special,
                           std::vector<Section>& sections) const {
  size_t done = 0;  // everything before is in a section
  const auto add = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end) sections.push_back({{to_offset(begin), to_offset(end)}, id});
  };
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    if (roots_[static_cast<uint8_t>(text[at])] == 0) {
      ++at;
      continue;
    }
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t begin = at;
    const size_t end = at + token->text.size();
    at = end;
    if (token->special && !parse_special) continue;
    if (token->single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    const size_t left = token->left_strip ? white_space_at_end(text.substr(0, begin)) : 0;
    const size_t right = token->right_strip ? white_space_at_start(text.substr(end)) : 0;
    const size_t from =
        std::max(begin - left, done);  // the token before may have taken the same space
    add(done, from, -1);
    add(from, end + right, token->id);
    done = end + right;
  }
  add(done, text.size(), -1);
}

}  // namespace penstock
