#include "text/decoder.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "text/unicode.h"

namespace penstock {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos;
       at = found + from.size()) {
    out.append(text, at, found - at);
    out += to;
  }
  out.append(text, at);
  return out;
}

struct ApplyEdit {
  std::string_view token;
  bool is_first;

  std::string operator()(const DecodeRules::Replace& edit) const {
    return replaced(token, edit.from, edit.to);
  }
  std::string operator()(const DecodeRules::Strip& edit) const {
    std::string_view rest = token;
    for (size_t i = 0; i < edit.front && rest.starts_with(edit.character); ++i) {
      rest.remove_prefix(edit.character.size());
    }
    for (size_t i = 0; i < edit.back && rest.ends_with(edit.character); ++i) {
      rest.remove_suffix(edit.character.size());
    }
    return std::string(rest);
  }
  std::string operator()(const DecodeRules::Metaspace& edit) const {
    return replaced(token, edit.mark, is_first && edit.drop_first ? "" : " ");
  }
};

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

Result<size_t> count_field(const JsonObject& step, std::string_view name) {
  PENSTOCK_ASSIGN(const int64_t n, step.integer(name));
  if (n < 0 || n > 1024) {
    return fail(ErrorKind::kInvalidData, "{} is {}; expected 0 to 1024", step.path(name), n);
  }
  return static_cast<size_t>(n);
}

// Reads one step after another and keeps them in the order that DecodeRules has.
class RulesReader {
 public:
  Result<void> add(const JsonObject& step) {
    PENSTOCK_ASSIGN(const std::string type, step.text("type"));
    if (type == "Replace") return add_replace(step);
    if (type == "Strip") return add_strip(step);
    if (type == "Metaspace") return add_metaspace(step);
    if (type == "ByteFallback") {
      PENSTOCK_TRY(expect_stage(step, type, Stage::kTokens));
      rules_.byte_fallback = true;
      stage_ = Stage::kBytes;
      return {};
    }
    if (type == "ByteLevel") {
      PENSTOCK_TRY(expect_stage(step, type, Stage::kTokens));
      rules_.byte_level = true;
      stage_ = Stage::kWhole;
      return {};
    }
    if (type == "Fuse") {
      stage_ = Stage::kWhole;
      return {};
    }
    return fail(ErrorKind::kUnsupported,
                "{} is \"{}\"; supported are ByteLevel, ByteFallback, Fuse, Strip, Replace, "
                "Metaspace and Sequence",
                step.path("type"), type);
  }

  DecodeRules take() { return std::move(rules_); }

 private:
  enum class Stage { kTokens, kBytes, kWhole };

  Result<void> expect_stage(const JsonObject& step, std::string_view type, Stage stage) const {
    if (stage_ == stage) return {};
    return fail(ErrorKind::kUnsupported,
                "{} is \"{}\" after bytes or tokens were put together, which is not supported",
                step.path("type"), type);
  }

  Result<void> add_replace(const JsonObject& step) {
    PENSTOCK_TRY(expect_stage(step, "Replace", Stage::kTokens));
    PENSTOCK_ASSIGN(const JsonObject pattern, step.object("pattern"));
    DecodeRules::Replace replace;
    PENSTOCK_ASSIGN(replace.from, pattern.text("String"));
    PENSTOCK_ASSIGN(replace.to, step.text("content"));
    if (replace.from.empty()) {
      return fail(ErrorKind::kInvalidData, "{} is empty; expected the text to replace",
                  pattern.path("String"));
    }
    rules_.edits.emplace_back(std::move(replace));
    return {};
  }

  Result<void> add_strip(const JsonObject& step) {
    DecodeRules::Strip strip;
    PENSTOCK_ASSIGN(strip.character, step.text("content"));
    PENSTOCK_ASSIGN(strip.front, count_field(step, "start"));
    PENSTOCK_ASSIGN(strip.back, count_field(step, "stop"));
    if (count_characters(strip.character) != 1) {
      return fail(ErrorKind::kInvalidData, "{} is \"{}\"; expected one character",
                  step.path("content"), strip.character);
    }
    if (stage_ == Stage::kTokens) {
      rules_.edits.emplace_back(std::move(strip));
      return {};
    }
    PENSTOCK_TRY(expect_stage(step, "Strip", Stage::kWhole));
    if (strip.back > 0 || rules_.strip_leading > 0) {
      return fail(ErrorKind::kUnsupported,
                  "{} takes from the end of the text, or a second time; supported is one Strip "
                  "from its front",
                  step.where);
    }
    rules_.strip_text = std::move(strip.character);
    rules_.strip_leading = strip.front;
    return {};
  }

  Result<void> add_metaspace(const JsonObject& step) {
    PENSTOCK_TRY(expect_stage(step, "Metaspace", Stage::kTokens));
    DecodeRules::Metaspace metaspace;
    PENSTOCK_ASSIGN(metaspace.mark, step.text("replacement"));
    PENSTOCK_ASSIGN(const bool add_prefix_space, step.flag_or("add_prefix_space", true));
    PENSTOCK_ASSIGN(const std::string scheme,
                    step.text_or("prepend_scheme", add_prefix_space ? "always" : "never"));
    metaspace.drop_first = scheme != "never";
    if (metaspace.mark.empty()) {
      return fail(ErrorKind::kInvalidData, "{} is empty; expected one character",
                  step.path("replacement"));
    }
    rules_.edits.emplace_back(std::move(metaspace));
    return {};
  }

  DecodeRules rules_;
  Stage stage_ = Stage::kTokens;
};

std::string apply_edits(const DecodeRules& rules, std::string_view token, bool is_first) {
  std::string edited(token);
  for (const DecodeRules::Edit& edit : rules.edits) {
    edited = std::visit(ApplyEdit{edited, is_first}, edit);
  }
  return edited;
}

// The byte that a token like <0xE2> stands for.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto high = hex_digit(token[3]);
  const auto low = hex_digit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high << 4 | *low);
}

}  // namespace

Result<DecodeRules> DecodeRules::from_json(const nlohmann::json* value) {
  if (value == nullptr) {
    DecodeRules words;
    words.separator = " ";
    return words;
  }
  PENSTOCK_ASSIGN(const auto steps, json_steps(value, "decoder", "decoders"));
  RulesReader reader;
  for (const JsonObject& step : steps) PENSTOCK_TRY(reader.add(step));
  return reader.take();
}

std::string DecodeRules::bytes_of(std::string_view token) const {
  std::string edited = apply_edits(*this, token, /*is_first=*/false);
  if (byte_level) return bytes_of_token(edited).value_or(edited);
  if (const auto byte = byte_fallback ? fallback_byte(edited) : std::nullopt) return {*byte};
  return edited;
}

void TextAssembler::push(std::string_view vocabulary_text, std::string& out) {
  const std::string token = apply_edits(*rules_, vocabulary_text, is_first_);
  if (rules_->byte_level) {
    const auto bytes =
        bytes_of_token(token);  // an added token may be text that is no bytes: then it is itself
    push_bytes(bytes ? *bytes : token, out);
  } else if (const auto byte = rules_->byte_fallback ? fallback_byte(token) : std::nullopt) {
    push_run_byte(*byte, out);
  } else {
    end_run(out);
    if (!is_first_) emit(rules_->separator, out);
    emit(token, out);
  }
  is_first_ = false;
}

void TextAssembler::push_bytes(std::string_view bytes, std::string& out) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (front.kind == Utf8Front::Kind::kIncomplete) break;
    emit(front.kind == Utf8Front::Kind::kWhole ? rest.substr(0, front.length)
                                               : kReplacementCharacter,
         out);
    rest.remove_prefix(front.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void TextAssembler::push_run_byte(char byte, std::string& out) {
  pending_ += byte;
  if (show_ == Show::kSettled) return;
  const Utf8Front front = utf8_front(pending_);
  if (front.kind == Utf8Front::Kind::kBroken) run_is_broken_ = true;
  if (run_is_broken_) {
    for (size_t i = 0; i < pending_.size(); ++i) emit(kReplacementCharacter, out);
    pending_.clear();
  } else if (front.kind == Utf8Front::Kind::kWhole) {
    emit(pending_, out);
    pending_.clear();
  }
}

void TextAssembler::end_run(std::string& out) {
  run_is_broken_ = false;
  if (pending_.empty()) return;
  if (!find_invalid_utf8(pending_)) {
    emit(pending_, out);
  } else {
    for (size_t i = 0; i < pending_.size(); ++i) emit(kReplacementCharacter, out);
  }
  pending_.clear();
}

void TextAssembler::finish(std::string& out) {
  if (rules_->byte_level && !pending_.empty()) {
    emit(kReplacementCharacter, out);
    pending_.clear();
  }
  end_run(out);
}

void TextAssembler::emit(std::string_view text, std::string& out) {
  if (text.empty()) return;
  while (stripped_ < rules_->strip_leading && text.starts_with(rules_->strip_text)) {
    text.remove_prefix(rules_->strip_text.size());
    ++stripped_;
  }
  if (!text.empty()) stripped_ = SIZE_MAX;
  out += text;
}

}  // namespace penstock
