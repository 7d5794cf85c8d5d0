// Hugging Face's tokenizer.json.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/tokenizer_fields.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace penstock {
namespace {

Result<void> read_vocabulary(const JsonObject& model, TokenTable& tokens) {
  PENSTOCK_ASSIGN(const JsonObject vocab, model.object("vocab"));
  for (const auto& [text, id] : vocab.value->items()) {
    if (!id.is_number_integer()) {
      return fail(ErrorKind::kInvalidData,
                  "model.vocab gives \"{}\" {} as its id; expected a whole number", text,
                  json_kind(id));
    }
    PENSTOCK_ASSIGN(const int64_t value, vocab.integer(text));
    PENSTOCK_TRY(tokens.add(text, value, "model.vocab"));
  }
  if (tokens.size() == 0) return fail(ErrorKind::kInvalidData, "model.vocab is empty");
  return {};
}

// A merge is ["left", "right"], in older files "left right".
Result<std::pair<std::string_view, std::string_view>> read_pair(const nlohmann::json& merge,
                                                                size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(merge[0].get_ref<const std::string&>(),
                                                         merge[1].get_ref<const std::string&>());
  }
  if (merge.is_string()) {
    const std::string_view both = merge.get_ref<const std::string&>();
    if (const auto pair = split_merge(both)) return *pair;
  }
  return fail(ErrorKind::kInvalidData, "model.merges[{}] is not a pair of tokens", index);
}

Result<MergeTable> read_merges(const JsonObject& model, const TokenTable& tokens,
                               const std::vector<bool>& special) {
  const nlohmann::json* list = model.find("merges");
  if (list == nullptr || !list->is_array()) {
    return fail(ErrorKind::kInvalidData, "model.merges is {}; expected an array",
                list == nullptr ? "missing" : json_kind(*list));
  }
  MergeTable merges(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    PENSTOCK_ASSIGN(const auto pair, read_pair((*list)[i], i));
    PENSTOCK_TRY(add_merge(tokens, special, pair.first, pair.second, i, "model.merges", merges));
  }
  return merges;
}

// What would change ids and is not done here.
Result<void> refuse_unsupported(const JsonObject& model) {
  PENSTOCK_ASSIGN(const std::string type, model.text_or("type", "BPE"));
  if (type != "BPE")
    return fail(ErrorKind::kUnsupported, "model.type is \"{}\"; supported is BPE", type);
  const nlohmann::json* dropout = model.find("dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return fail(ErrorKind::kUnsupported, "model.dropout is {}; random merges are not supported",
                dropout->dump());
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    PENSTOCK_ASSIGN(const std::string affix, model.text_or(name, ""));
    if (!affix.empty())
      return fail(ErrorKind::kUnsupported, "model.{} is \"{}\"; supported is none", name, affix);
  }
  return {};
}

Result<std::vector<AddedToken>> read_added_tokens(const JsonObject& file, TokenTable& tokens) {
  std::vector<AddedToken> added;
  const nlohmann::json* list = file.find("added_tokens");
  if (list == nullptr) return added;
  if (!list->is_array()) {
    return fail(ErrorKind::kInvalidData, "added_tokens is {}; expected an array", json_kind(*list));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    PENSTOCK_ASSIGN(const JsonObject entry,
                    json_object((*list)[i], fmt::format("added_tokens[{}]", i)));
    AddedToken token;
    PENSTOCK_ASSIGN(token.text, entry.text("content"));
    PENSTOCK_ASSIGN(const int64_t id, entry.integer("id"));
    PENSTOCK_TRY(tokens.add(token.text, id, entry.where));
    token.id = static_cast<int32_t>(id);
    PENSTOCK_ASSIGN(token.special, entry.flag_or("special", false));
    PENSTOCK_ASSIGN(token.single_word, entry.flag_or("single_word", false));
    PENSTOCK_ASSIGN(token.left_strip, entry.flag_or("lstrip", false));
    PENSTOCK_ASSIGN(token.right_strip, entry.flag_or("rstrip", false));
    PENSTOCK_ASSIGN(token.normalized, entry.flag_or("normalized", !token.special));
    added.push_back(std::move(token));
  }
  return added;
}

// The ids that one entry of a template stands for: special_tokens names them.
Result<void> append_special(const JsonObject& step, const std::string& name,
                            const TokenTable& tokens, std::vector<int32_t>& ids) {
  PENSTOCK_ASSIGN(const JsonObject specials, step.object("special_tokens"));
  PENSTOCK_ASSIGN(const JsonObject special, specials.object(name));
  const nlohmann::json* list = special.find("ids");
  if (list == nullptr || !list->is_array()) {
    return fail(ErrorKind::kInvalidData, "{} is {}; expected an array of ids", special.path("ids"),
                list == nullptr ? "missing" : json_kind(*list));
  }
  for (const nlohmann::json& id : *list) {
    const bool fits = id.is_number_integer() && id >= 0 && id <= TokenTable::kMaxId;
    if (!fits || !tokens.has(id.get<int32_t>())) {
      return fail(ErrorKind::kInvalidData, "{} has {}, which is no token's id", special.path("ids"),
                  id.dump());
    }
    ids.push_back(id.get<int32_t>());
  }
  return {};
}

// A template like [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}] puts tokens around
// the text.
Result<void> read_template(const JsonObject& step, TokenizerParts& parts) {
  const nlohmann::json* single = step.find("single");
  if (single == nullptr || !single->is_array()) {
    return fail(ErrorKind::kInvalidData, "{} is {}; expected an array", step.path("single"),
                single == nullptr ? "missing" : json_kind(*single));
  }
  bool has_text = false;
  for (size_t i = 0; i < single->size(); ++i) {
    PENSTOCK_ASSIGN(const JsonObject entry,
                    json_object((*single)[i], fmt::format("{}[{}]", step.path("single"), i)));
    if (entry.find("SpecialToken") != nullptr) {
      PENSTOCK_ASSIGN(const JsonObject special, entry.object("SpecialToken"));
      PENSTOCK_ASSIGN(const std::string name, special.text("id"));
      PENSTOCK_TRY(
          append_special(step, name, parts.tokens, has_text ? parts.suffix : parts.prefix));
      continue;
    }
    PENSTOCK_ASSIGN(const JsonObject sequence, entry.object("Sequence"));
    PENSTOCK_ASSIGN(const std::string name, sequence.text("id"));
    if (name != "A" || has_text) {
      return fail(ErrorKind::kInvalidData, "{} is not a template of one text: it names \"{}\"",
                  entry.where, name);
    }
    has_text = true;
  }
  if (!has_text)
    return fail(ErrorKind::kInvalidData, "{} leaves the text out", step.path("single"));
  return {};
}

Result<void> read_post_processor(const JsonObject& file, TokenizerParts& parts) {
  PENSTOCK_ASSIGN(const auto steps,
                  json_steps(file.find("post_processor"), "post_processor", "processors"));
  bool has_template = false;
  for (const JsonObject& step : steps) {
    PENSTOCK_ASSIGN(const std::string type, step.text("type"));
    if (type == "ByteLevel") continue;  // moves offsets, which nobody here has
    if (type != "TemplateProcessing") {
      return fail(ErrorKind::kUnsupported,
                  "{} is \"{}\"; supported are TemplateProcessing, ByteLevel and Sequence",
                  step.path("type"), type);
    }
    if (has_template) {
      return fail(ErrorKind::kUnsupported, "{} is a second TemplateProcessing; supported is one",
                  step.where);
    }
    PENSTOCK_TRY(read_template(step, parts));
    has_template = true;
  }
  if (parts.prefix.size() == 1) parts.bos_id = parts.prefix.front();
  return {};
}

Result<BpeModel> read_model(const JsonObject& model, bool byte_level, const TokenTable& tokens,
                            const std::vector<bool>& special) {
  BpeModel bpe;
  bpe.byte_level = byte_level;
  PENSTOCK_ASSIGN(bpe.byte_fallback, model.flag_or("byte_fallback", false));
  PENSTOCK_ASSIGN(bpe.fuse_unk, model.flag_or("fuse_unk", false));
  PENSTOCK_ASSIGN(const std::string unk, model.text_or("unk_token", ""));
  if (!unk.empty()) {
    bpe.unk = tokens.find(unk);
    if (!bpe.unk)
      return fail(ErrorKind::kInvalidData, "model.unk_token is \"{}\", which is no token", unk);
  }
  PENSTOCK_ASSIGN(bpe.merges, read_merges(model, tokens, special));
  set_symbols(tokens, special, bpe);
  PENSTOCK_ASSIGN(const bool ignore_merges, model.flag_or("ignore_merges", false));
  if (ignore_merges) set_whole_pieces(tokens, special, bpe);
  return bpe;
}

}  // namespace

Result<TokenizerParts> parts_from_json(std::string_view tokenizer_json) {
  PENSTOCK_ASSIGN(const Json json, parse_json(tokenizer_json));
  if (!json.is_object())
    return fail(ErrorKind::kInvalidData, "the file is {}; expected an object", json_kind(json));
  const JsonObject file{&json, ""};
  PENSTOCK_ASSIGN(const JsonObject model, file.object("model"));
  PENSTOCK_TRY(refuse_unsupported(model));

  TokenizerParts parts;
  PENSTOCK_ASSIGN(parts.normalizer, Normalizer::from_json(file.find("normalizer")));
  PENSTOCK_ASSIGN(parts.pre_tokenizer, PreTokenizer::from_json(file.find("pre_tokenizer")));
  PENSTOCK_ASSIGN(parts.decode_rules, DecodeRules::from_json(file.find("decoder")));
  TokenTable& tokens = parts.tokens;
  PENSTOCK_TRY(read_vocabulary(model, tokens));
  // The model knows its own vocabulary only; an added token is never the result of merging unless
  // it stands there too.
  TokenTable all = tokens;
  PENSTOCK_ASSIGN(std::vector<AddedToken> added, read_added_tokens(file, all));
  PENSTOCK_ASSIGN(BpeModel bpe, read_model(model, parts.pre_tokenizer.byte_level(), tokens,
                                           special_ids(added, all.size())));
  parts.unk_id = bpe.unk;
  parts.bpe = Bpe(std::move(bpe));
  tokens = std::move(all);
  PENSTOCK_TRY(parts.set_added(std::move(added)));
  PENSTOCK_TRY(read_post_processor(file, parts));
  return parts;
}

}  // namespace penstock
