#include "text/tokenizer_parts.h"

#include "text/unicode.h"

namespace penstock {

Result<void> TokenTable::add(std::string_view text, int64_t id, std::string_view field) {
  if (id < 0 || id > kMaxId) {
    return fail(ErrorKind::kInvalidData, "{} gives \"{}\" the id {}; expected 0 to {}", field, text,
                id, kMaxId);
  }
  const auto index = static_cast<size_t>(id);
  if (const auto known = find(text); known && *known != id) {
    return fail(ErrorKind::kInvalidData, "{} gives \"{}\" the id {}, but it has the id {}", field,
                text, id, *known);
  }
  if (index < texts_.size() && texts_[index] && *texts_[index] != text) {
    return fail(ErrorKind::kInvalidData, "{} gives \"{}\" the id {}, which is that of \"{}\"",
                field, text, id, *texts_[index]);
  }
  if (index >= texts_.size()) texts_.resize(index + 1);
  texts_[index] = text;
  ids_.emplace(text, static_cast<int32_t>(id));
  return {};
}

bool TokenTable::has(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < texts_.size() &&
         texts_[static_cast<size_t>(id)].has_value();
}

std::string_view TokenTable::text(int32_t id) const {
  return has(id) ? std::string_view(*texts_[static_cast<size_t>(id)]) : std::string_view();
}

std::optional<int32_t> TokenTable::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

Result<void> TokenizerParts::set_added(std::vector<AddedToken> added_tokens) {
  special = special_ids(added_tokens, tokens.size());
  std::vector<AddedToken> plain;
  std::vector<AddedToken> normalized;
  RegexScratch scratch;
  std::string buffer;
  for (AddedToken& token : added_tokens) {
    if (!token.normalized) {
      plain.push_back(std::move(token));
      continue;
    }
    PENSTOCK_ASSIGN(const std::string_view form, normalizer.apply(token.text, scratch, buffer));
    token.text = std::string(form);
    normalized.push_back(std::move(token));
  }
  added = AddedTokenFinder(std::move(plain));
  added_normalized = AddedTokenFinder(std::move(normalized));
  return {};
}

std::optional<std::pair<std::string_view, std::string_view>> split_merge(std::string_view both) {
  const size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos)
    return std::nullopt;
  return std::pair(both.substr(0, space), both.substr(space + 1));
}

std::vector<bool> special_ids(const std::vector<AddedToken>& added, size_t n_ids) {
  std::vector<bool> special(n_ids, false);
  for (const AddedToken& token : added) {
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  }
  return special;
}

Result<void> add_merge(const TokenTable& tokens, const std::vector<bool>& special,
                       std::string_view left, std::string_view right, size_t index,
                       std::string_view field, MergeTable& merges) {
  const auto find = [&](std::string_view text) -> Result<int32_t> {
    if (const auto id = tokens.find(text)) return *id;
    return fail(ErrorKind::kInvalidData, "{}[{}] needs \"{}\", which is not in the vocabulary",
                field, index, text);
  };
  PENSTOCK_ASSIGN(const int32_t left_id, find(left));
  PENSTOCK_ASSIGN(const int32_t right_id, find(right));
  PENSTOCK_ASSIGN(const int32_t merged_id, find(std::string(left) + std::string(right)));
  if (special[static_cast<size_t>(merged_id)]) return {};
  merges.insert(left_id, right_id, {static_cast<uint32_t>(index), merged_id});
  return {};
}

void set_symbols(const TokenTable& tokens, const std::vector<bool>& special, BpeModel& bpe) {
  const auto find = [&](std::string_view text) {
    const auto id = tokens.find(text);
    return id && !special[static_cast<size_t>(*id)] ? *id : -1;
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    if (bpe.byte_level) {
      append_character(text, character_of_byte(static_cast<uint8_t>(byte)));
    } else {
      text = fmt::format("<0x{:02X}>", byte);
    }
    bpe.bytes[byte] = find(text);
  }
  if (bpe.byte_level) return;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string_view text = tokens.text(static_cast<int32_t>(i));
    if (text.empty() || special[i]) continue;
    const char32_t character = take_character(text);
    if (text.empty()) bpe.characters.emplace(character, static_cast<int32_t>(i));
  }
}

void set_whole_pieces(const TokenTable& tokens, const std::vector<bool>& special, BpeModel& bpe) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string text(tokens.text(static_cast<int32_t>(i)));
    if (text.empty() || special[i]) continue;
    if (bpe.byte_level) {
      const auto bytes = bytes_of_token(text);
      if (!bytes) continue;
      text = *bytes;
    }
    bpe.whole_pieces.emplace(std::move(text), static_cast<int32_t>(i));
  }
}

}  // namespace penstock
