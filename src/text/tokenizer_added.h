// Added tokens: texts that are one token wherever they stand, cut out before anything else sees the
// text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer_regex.h"

namespace penstock {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;      // stands for no text of its own: <|im_end|>
  bool single_word = false;  // not next to a word character
  bool left_strip = false;   // takes the white space before it along
  bool right_strip = false;
  bool normalized = false;  // looked for in normalised text
};

// A stretch of text, and the added token it is; -1: ordinary text.
struct Section {
  TextSpan span;
  int32_t id = -1;
};

// Finds added tokens in text: the leftmost, of those the longest. Immutable and thread-safe.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // Appends the sections of `text`, in order, without empty ones. With `parse_special` false, texts
  // of special tokens are ordinary text.
  void cut(std::string_view text, bool parse_special, std::vector<Section>& sections) const;

 private:
  // A trie over the tokens' bytes. Children are a linked list: nodes have few, except the root,
  // which has `roots_`.
  struct Node {
    uint32_t child = 0;  // 0: none
    uint32_t sibling = 0;
    int32_t token = -1;  // index of the token that ends here
    char byte = 0;
  };
  void insert(std::string_view text, int32_t token);
  uint32_t child_of(uint32_t node, char byte) const;
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> roots_;  // [256] first nodes by byte, 0: none
};

}  // namespace penstock
