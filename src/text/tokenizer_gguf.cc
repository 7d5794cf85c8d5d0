// The tokenizer inside a GGUF file. Kinds and defaults follow the files that llama.cpp's converter
// writes.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace penstock {
namespace {

constexpr std::string_view kMark = "\u2581";  // SentencePiece's space
// Longer tokens would make the search for their parts slow; the longest in use have about 100.
constexpr size_t kMaxPieceBytes = 256;

// The regexes are the models' own, from their tokenizer.json.
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigitRun = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekCjk = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLineBreak = R"([\r\n])";
constexpr std::string_view kDeepseekLlmLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})"
    R"(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekLlmPunctuation = "\\s?[!-/:-~！-／：-～‘-‟　-。]+";
constexpr std::string_view kDeepseekLlmCjk = "[一-龥ࠀ-一가-\uD7FF]+";
constexpr std::string_view kTrailingSpace = R"(\s+$)";

struct PreKind {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  // one split after the other
  bool nfc = false;
  bool whole_pieces = false;  // "ignore_merges"
  bool add_bos = false;       // where the file does not say
};

const std::vector<PreKind>& pre_kinds() {
  static const std::vector<PreKind> kinds = {
      {.names = {"gpt-2", "phi-2", "olmo", "mpt", "jina-es", "jina-de"},
       .patterns = {kGpt2Pattern}},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       .patterns = {kDigit, kGpt2Pattern}},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"},
       .patterns = {kLlama3},
       .whole_pieces = true,
       .add_bos = true},
      {.names = {"glm4", "chatglm-bpe", "dbrx", "smaug-bpe"}, .patterns = {kLlama3}},
      {.names = {"qwen2", "deepseek-r1-qwen", "megrez"}, .patterns = {kQwen2}, .nfc = true},
      {.names = {"stablelm2", "hunyuan", "grok-2"}, .patterns = {kQwen2}},
      {.names = {"qwen35"}, .patterns = {kQwen35}, .nfc = true},
      {.names = {"gpt-4o", "llama4", "minimax-m2"}, .patterns = {kO200k}},
      {.names = {"tekken"}, .patterns = {kTekken}, .whole_pieces = true, .add_bos = true},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       .patterns = {kThreeDigits, kDeepseekCjk, kDeepseekWords}},
      {.names = {"deepseek-llm"},
       .patterns = {kLineBreak, kDeepseekLlmLetters, kDeepseekLlmPunctuation, kTrailingSpace,
                    kDeepseekLlmCjk, kDigitRun}},
      {.names = {"deepseek-coder"},
       .patterns = {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekLlmCjk, kDigit}},
      {.names = {"default"},
       .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, kDigitRun, "[0-9][0-9][0-9]"}},
  };
  return kinds;
}

Result<const PreKind*> find_pre_kind(std::string_view name) {
  for (const PreKind& kind : pre_kinds()) {
    if (std::ranges::find(kind.names, name) != kind.names.end()) return &kind;
  }
  return fail(ErrorKind::kUnsupported, "tokenizer.ggml.pre is \"{}\"; supported are {}", name,
              fmt::join(Tokenizer::supported_gguf_pre(), ", "));
}

// Checks lengths and values, so that the rest may index freely.
Result<void> check_arrays(const GgufVocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (n == 0) return fail(ErrorKind::kInvalidData, "tokenizer.ggml.tokens is empty");
  if (!vocabulary.token_types.empty() && vocabulary.token_types.size() != n) {
    return fail(ErrorKind::kInvalidData, "tokenizer.ggml.token_type has {} values for {} tokens",
                vocabulary.token_types.size(), n);
  }
  for (size_t i = 0; i < vocabulary.token_types.size(); ++i) {
    const int32_t type = vocabulary.token_types[i];
    if (type < 0 || type > static_cast<int32_t>(GgufTokenType::kByte)) {
      return fail(ErrorKind::kInvalidData, "tokenizer.ggml.token_type[{}] is {}; expected 1 to 6",
                  i, type);
    }
  }
  if (vocabulary.model == "llama" && vocabulary.scores.size() != n) {
    return fail(ErrorKind::kInvalidData, "tokenizer.ggml.scores has {} values for {} tokens",
                vocabulary.scores.size(), n);
  }
  for (size_t i = 0; i < vocabulary.scores.size(); ++i) {
    if (std::isnan(vocabulary.scores[i])) {
      return fail(ErrorKind::kInvalidData, "tokenizer.ggml.scores[{}] is not a number", i);
    }
  }
  return {};
}

GgufTokenType type_of(const GgufVocabulary& vocabulary, size_t id) {
  if (vocabulary.token_types.empty()) return GgufTokenType::kNormal;
  return static_cast<GgufTokenType>(vocabulary.token_types[id]);
}

bool is_special_type(GgufTokenType type) {
  return type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
}

Result<void> read_tokens(const GgufVocabulary& vocabulary, TokenTable& tokens) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    if (find_invalid_utf8(text)) {
      return fail(ErrorKind::kInvalidData, "tokenizer.ggml.tokens[{}] is not valid UTF-8", i);
    }
    PENSTOCK_TRY(tokens.add(text, static_cast<int64_t>(i), "tokenizer.ggml.tokens"));
  }
  return {};
}

std::vector<AddedToken> added_tokens_of(const GgufVocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const GgufTokenType type = type_of(vocabulary, i);
    if (!is_special_type(type) && type != GgufTokenType::kUserDefined) continue;
    added.push_back({.id = static_cast<int32_t>(i),
                     .text = vocabulary.tokens[i],
                     .special = is_special_type(type)});
  }
  return added;
}

Result<std::optional<int32_t>> checked_id(std::optional<int32_t> id, std::string_view key,
                                          const TokenTable& tokens) {
  if (id && !tokens.has(*id)) {
    return fail(ErrorKind::kInvalidData, "tokenizer.ggml.{} is {}; there are {} tokens", key, *id,
                tokens.size());
  }
  return id;
}

// `add_bos` is what the kind of tokenizer does where the file does not say.
Result<void> set_special_ids(const GgufVocabulary& vocabulary, bool add_bos,
                             TokenizerParts& parts) {
  PENSTOCK_ASSIGN(parts.bos_id, checked_id(vocabulary.bos_id, "bos_token_id", parts.tokens));
  PENSTOCK_ASSIGN(parts.eos_id, checked_id(vocabulary.eos_id, "eos_token_id", parts.tokens));
  PENSTOCK_ASSIGN(parts.eot_id, checked_id(vocabulary.eot_id, "eot_token_id", parts.tokens));
  PENSTOCK_ASSIGN(parts.unk_id, checked_id(vocabulary.unk_id, "unknown_token_id", parts.tokens));
  PENSTOCK_ASSIGN(parts.pad_id, checked_id(vocabulary.pad_id, "padding_token_id", parts.tokens));
  if (vocabulary.add_bos.value_or(add_bos) && parts.bos_id) parts.prefix = {*parts.bos_id};
  if (vocabulary.add_eos.value_or(false) && parts.eos_id) parts.suffix = {*parts.eos_id};
  return {};
}

Result<BpeModel> byte_level_model(const GgufVocabulary& vocabulary, const PreKind& kind,
                                  const TokenizerParts& parts) {
  BpeModel bpe;
  bpe.byte_level = true;
  bpe.merges = MergeTable(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto pair = split_merge(vocabulary.merges[i]);
    if (!pair) {
      return fail(ErrorKind::kInvalidData,
                  "tokenizer.ggml.merges[{}] is \"{}\"; expected two tokens and a space", i,
                  vocabulary.merges[i]);
    }
    PENSTOCK_TRY(add_merge(parts.tokens, parts.special, pair->first, pair->second, i,
                           "tokenizer.ggml.merges", bpe.merges));
  }
  set_symbols(parts.tokens, parts.special, bpe);
  if (kind.whole_pieces) set_whole_pieces(parts.tokens, parts.special, bpe);
  return bpe;
}

Result<TokenizerParts> gpt2_parts(const GgufVocabulary& vocabulary) {
  PENSTOCK_ASSIGN(const PreKind* kind,
                  find_pre_kind(vocabulary.pre.empty() ? "default" : vocabulary.pre));
  TokenizerParts parts;
  PENSTOCK_TRY(read_tokens(vocabulary, parts.tokens));
  PENSTOCK_TRY(set_special_ids(vocabulary, kind->add_bos, parts));
  if (kind->nfc) parts.normalizer = Normalizer({Normalizer::Form::kNfc});
  PENSTOCK_ASSIGN(parts.pre_tokenizer, PreTokenizer::from_patterns(kind->patterns));
  PENSTOCK_TRY(parts.set_added(added_tokens_of(vocabulary)));
  PENSTOCK_ASSIGN(BpeModel bpe, byte_level_model(vocabulary, *kind, parts));
  parts.bpe = Bpe(std::move(bpe));
  parts.decode_rules.byte_level = true;
  return parts;
}

// SentencePiece merges any two neighbours whose texts together are a piece, the piece of the
// highest score first (Kudo & Richardson, arXiv:1808.06226). As a merge table: every way to cut a
// piece in two pieces, ranked by the piece's score. Control, unknown and byte pieces never come
// from text.
Result<MergeTable> score_merges(const GgufVocabulary& vocabulary, const TokenTable& tokens) {
  const auto is_piece = [&](int32_t id) {
    const GgufTokenType type = type_of(vocabulary, static_cast<size_t>(id));
    return !is_special_type(type) && type != GgufTokenType::kByte;
  };
  std::vector<float> scores = vocabulary.scores;
  std::ranges::sort(scores, std::greater{});
  const auto rank_of = [&](float score) {
    return static_cast<uint32_t>(std::ranges::lower_bound(scores, score, std::greater{}) -
                                 scores.begin());
  };
  struct Found {
    int32_t left, right;
    Merge merge;
  };
  std::vector<Found> found;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string_view text = vocabulary.tokens[i];
    if (!is_piece(id)) continue;
    if (text.size() > kMaxPieceBytes) {
      return fail(ErrorKind::kUnsupported,
                  "tokenizer.ggml.tokens[{}] has {} bytes; supported are {}", i, text.size(),
                  kMaxPieceBytes);
    }
    const Merge merge = {rank_of(vocabulary.scores[i]), id};
    for (std::string_view rest = text; !rest.empty();) {
      take_character(rest);
      const auto left = tokens.find(text.substr(0, text.size() - rest.size()));
      const auto right = tokens.find(rest);
      if (left && right && !rest.empty() && is_piece(*left) && is_piece(*right)) {
        found.push_back({*left, *right, merge});
      }
    }
  }
  MergeTable merges(found.size());
  for (const Found& pair : found) merges.insert(pair.left, pair.right, pair.merge);
  return merges;
}

Result<TokenizerParts> sentencepiece_parts(const GgufVocabulary& vocabulary) {
  TokenizerParts parts;
  PENSTOCK_TRY(read_tokens(vocabulary, parts.tokens));
  PENSTOCK_TRY(set_special_ids(vocabulary, /*add_bos=*/true, parts));
  const bool add_space = vocabulary.add_space_prefix.value_or(true);

  std::vector<Normalizer::Step> steps;
  if (add_space) steps.emplace_back(Normalizer::Prepend{std::string(kMark)});
  steps.emplace_back(
      Normalizer::Replace{.pattern = std::string(" "), .content = std::string(kMark)});
  parts.normalizer = Normalizer(std::move(steps));
  PENSTOCK_TRY(parts.set_added(added_tokens_of(vocabulary)));

  BpeModel bpe;
  bpe.byte_fallback = true;
  bpe.fuse_unk = true;
  bpe.unk = parts.unk_id;
  PENSTOCK_ASSIGN(bpe.merges, score_merges(vocabulary, parts.tokens));
  set_symbols(parts.tokens, parts.special, bpe);
  parts.bpe = Bpe(std::move(bpe));

  parts.decode_rules.edits = {DecodeRules::Replace{.from = std::string(kMark), .to = " "}};
  parts.decode_rules.byte_fallback = true;
  if (add_space) {
    parts.decode_rules.strip_text = " ";
    parts.decode_rules.strip_leading = 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string_view> Tokenizer::supported_gguf_pre() {
  std::vector<std::string_view> names;
  for (const PreKind& kind : pre_kinds())
    names.insert(names.end(), kind.names.begin(), kind.names.end());
  return names;
}

Result<TokenizerParts> parts_from_vocabulary(const GgufVocabulary& vocabulary) {
  PENSTOCK_TRY(check_arrays(vocabulary));
  if (vocabulary.model == "gpt2") return gpt2_parts(vocabulary);
  if (vocabulary.model == "llama") return sentencepiece_parts(vocabulary);
  return fail(ErrorKind::kUnsupported,
              "tokenizer.ggml.model is \"{}\"; supported are gpt2 and llama", vocabulary.model);
}

}  // namespace penstock
