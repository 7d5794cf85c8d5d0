#include "text/tokenizer.h"

#include <algorithm>
#include <mutex>

#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace penstock {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr size_t kMaxKeptText = size_t{1}
                                << 20;  // a scratch that has grown with a longer text is freed

// Everything an encode() works in. Kept between calls for the caches in it.
struct EncodeScratch {
  RegexScratch regex;
  BpeScratch bpe;
  std::vector<Section> sections, inner_sections;
  std::string normalized, without_barriers;
  PieceList pieces;
};

}  // namespace

// Hands each encode() a scratch of its own, so that the hot loops need no lock. Thread-safe.
class EncodeScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<EncodeScratch>();
  }

  void give_back(std::unique_ptr<EncodeScratch> scratch) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(scratch));
  }

 private:
  static constexpr size_t kMaxIdle = 8;  // about 1 MiB each
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> idle_;
};

namespace {

class Encoder {
 public:
  Encoder(const TokenizerParts& parts, EncodeOptions options, EncodeScratch& scratch,
          std::vector<int32_t>& ids)
      : parts_(parts), options_(options), scratch_(scratch), ids_(ids) {}

  Result<void> encode(std::string_view text) {
    scratch_.sections.clear();
    parts_.added.cut(text, options_.parse_special, scratch_.sections);
    for (const Section& section : scratch_.sections) {
      if (section.id >= 0) {
        ids_.push_back(section.id);
      } else {
        PENSTOCK_TRY(encode_section(section.span.of(text), /*at_start=*/section.span.begin == 0));
      }
    }
    return {};
  }

 private:
  Result<void> encode_section(std::string_view text, bool at_start) {
    PENSTOCK_ASSIGN(text, parts_.normalizer.apply(text, scratch_.regex, scratch_.normalized));
    scratch_.inner_sections.clear();
    parts_.added_normalized.cut(text, options_.parse_special, scratch_.inner_sections);
    for (const Section& section : scratch_.inner_sections) {
      if (section.id >= 0) {
        ids_.push_back(section.id);
      } else {
        PENSTOCK_TRY(encode_ordinary(section.span.of(text), at_start && section.span.begin == 0));
      }
    }
    return {};
  }

  Result<void> encode_ordinary(std::string_view text, bool at_start) {
    if (!options_.barrier.empty()) {
      text = without_barriers(text);
      if (text.empty()) return {};
    }
    PieceList& list = scratch_.pieces;
    list.text = text;
    PENSTOCK_TRY(parts_.pre_tokenizer.apply(at_start, scratch_.regex, list));
    for (const TextSpan piece : list.pieces)
      parts_.bpe.encode(piece.of(list.text), scratch_.bpe, ids_);
    return {};
  }

  std::string_view without_barriers(std::string_view text) {
    std::string& kept = scratch_.without_barriers;
    kept.clear();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(options_.barrier, at), text.size());
      kept += text.substr(at, end - at);
      at = end + options_.barrier.size();
    }
    return kept;
  }

  const TokenizerParts& parts_;
  EncodeOptions options_;
  EncodeScratch& scratch_;
  std::vector<int32_t>& ids_;
};

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::make_shared<const TokenizerParts>(std::move(parts))),
      scratches_(std::make_shared<EncodeScratchPool>()) {}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json) {
  PENSTOCK_ASSIGN(TokenizerParts parts, parts_from_json(tokenizer_json));
  return Tokenizer(std::move(parts));
}

Result<Tokenizer> Tokenizer::from_vocabulary(const GgufVocabulary& vocabulary) {
  PENSTOCK_ASSIGN(TokenizerParts parts, parts_from_vocabulary(vocabulary));
  return Tokenizer(std::move(parts));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorKind::kInvalidArgument,
                "the text has {} bytes; at most {} can be encoded at once", text.size(),
                kMaxTextBytes);
  }
  if (const auto at = find_invalid_utf8(text)) {
    return fail(ErrorKind::kInvalidArgument, "the text is not valid UTF-8 at byte {}", *at);
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + parts_->prefix.size() + parts_->suffix.size());
  if (options.add_special) ids = parts_->prefix;
  auto scratch = scratches_->take();
  const auto done = Encoder(*parts_, options, *scratch, ids).encode(text);
  if (text.size() <= kMaxKeptText) scratches_->give_back(std::move(scratch));
  if (!done) return std::unexpected(done.error());
  if (options.add_special) ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  TextAssembler assembler(parts_->decode_rules, TextAssembler::Show::kSettled);
  std::string text;
  for (const int32_t id : ids) {
    if (!has_token(id) || (skip_special && is_special(id))) continue;
    assembler.push(token_text(id), text);
  }
  assembler.finish(text);
  return text;
}

size_t Tokenizer::vocab_size() const { return parts_->tokens.size(); }
bool Tokenizer::has_token(int32_t id) const { return parts_->tokens.has(id); }
std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  return parts_->tokens.find(token);
}
std::string_view Tokenizer::token_text(int32_t id) const { return parts_->tokens.text(id); }
std::string Tokenizer::token_bytes(int32_t id) const {
  return has_token(id) ? parts_->decode_rules.bytes_of(token_text(id)) : std::string();
}
bool Tokenizer::is_special(int32_t id) const {
  return has_token(id) && parts_->special[static_cast<size_t>(id)];
}
std::vector<AddedTokenText> Tokenizer::added_tokens() const {
  std::vector<AddedTokenText> texts;
  for (const AddedTokenFinder* finder : {&parts_->added, &parts_->added_normalized}) {
    for (const AddedToken& token : finder->tokens()) texts.push_back({token.text, token.special});
  }
  return texts;
}
std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }
std::optional<int32_t> Tokenizer::eot_id() const { return parts_->eot_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }
std::optional<int32_t> Tokenizer::unk_id() const { return parts_->unk_id; }

}  // namespace penstock
