#include "engine/control_text.h"

#include <algorithm>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace penstock {
namespace {

size_t first_character_bytes(std::string_view text) { return utf8_front(text).length; }

bool is_all_space(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
}

// The template names the text or, of a pair of tags, its other half.
bool names(std::string_view template_source, std::string_view text) {
  const auto has = [&](std::string_view part) {
    return template_source.find(part) != std::string_view::npos;
  };
  if (has(text)) return true;
  if (text.starts_with("</")) return has("<" + std::string(text.substr(2)));
  return text.starts_with("<") && has("</" + std::string(text.substr(1)));
}

// One is the other's beginning: `rest` spells `whole`, or ends while it does.
bool agree(std::string_view whole, std::string_view rest) {
  const size_t n = std::min(whole.size(), rest.size());
  return whole.substr(0, n) == rest.substr(0, n);
}

}  // namespace

void ControlText::Texts::add(std::string_view text) {
  const size_t first = first_character_bytes(text);
  // A barrier cannot stand inside a single character; no tokenizer we know has such a control
  // token.
  if (first == text.size()) return;
  whole[static_cast<uint8_t>(text[0])].emplace_back(text);
  for (size_t at = first; at < text.size(); at += first_character_bytes(text.substr(at))) {
    tails[static_cast<uint8_t>(text[at])].emplace_back(text.substr(at));
  }
}

void ControlText::Texts::sort() {
  for (ByFirstByte* groups : {&whole, &tails}) {
    for (std::vector<std::string>& group : *groups) {
      std::ranges::sort(group);
      group.erase(std::unique(group.begin(), group.end()), group.end());
    }
  }
}

ControlText::ControlText(const Tokenizer& tokenizer, std::string_view template_source) {
  for (const AddedTokenText& added : tokenizer.added_tokens()) {
    if (added.text.empty() || is_all_space(added.text)) continue;
    if (added.special) special_.add(added.text);
    if (added.special || names(template_source, added.text)) {
      all_.add(added.text);
    }
  }
  special_.sort();
  all_.sort();
}

std::string ControlText::guard(std::string_view text, std::string_view barrier,
                               Author author) const {
  const Texts& texts = author == Author::kAssistant ? special_ : all_;
  std::string guarded;
  const auto any = [](const ByFirstByte& groups, std::string_view rest, auto matches) {
    if (rest.empty()) return false;
    return std::ranges::any_of(groups[static_cast<uint8_t>(rest[0])],
                               [&](const std::string& known) { return matches(known, rest); });
  };
  // What stands before may have begun a control text that this completes.
  if (any(texts.tails, text,
          [](std::string_view tail, std::string_view rest) { return rest.starts_with(tail); })) {
    guarded += barrier;
  }
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t n_bytes = first_character_bytes(rest);
    guarded += rest.substr(0, n_bytes);
    if (any(texts.whole, rest, agree)) guarded += barrier;
    at += n_bytes;
  }
  return guarded;
}

OrderedJson ControlText::guard_all(const OrderedJson& value, std::string_view barrier,
                                   Author author) const {
  if (value.is_string()) return guard(value.get_ref<const std::string&>(), barrier, author);
  if (value.is_array()) {
    OrderedJson guarded = OrderedJson::array();
    for (const OrderedJson& item : value) guarded.push_back(guard_all(item, barrier, author));
    return guarded;
  }
  if (value.is_object()) {
    OrderedJson guarded = OrderedJson::object();
    for (const auto& [key, item] : value.items()) {
      guarded[guard(key, barrier, author)] = guard_all(item, barrier, author);
    }
    return guarded;
  }
  return value;
}

std::optional<std::string> find_barrier(std::string_view text) {
  for (char32_t character = 0xFDD0; character <= 0xFDEF; ++character) {
    std::string barrier;
    append_character(barrier, character);
    if (text.find(barrier) == std::string_view::npos) return barrier;
  }
  return std::nullopt;
}

}  // namespace penstock
