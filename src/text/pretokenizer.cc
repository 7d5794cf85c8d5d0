#include "text/pretokenizer.h"

#include <algorithm>

namespace penstock {
namespace {

using Behavior = PreTokenizer::Behavior;

uint32_t to_offset(size_t n) { return static_cast<uint32_t>(n); }

void find_literal(std::string_view text, std::string_view what, std::vector<TextSpan>& matches) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) {
    matches.push_back({to_offset(at), to_offset(at + what.size())});
  }
}

// Collects the pieces that one piece of text falls into, told in order about each stretch that is a
// separator and each that is not. Empty stretches (an empty match) part their neighbours and are
// left out at the end.
class Cutter {
 public:
  Cutter(Behavior behavior, std::vector<TextSpan>& out)
      : behavior_(behavior), out_(out), first_(out.size()) {}

  void add(TextSpan span, bool is_separator) {
    if (behavior_ == Behavior::kRemoved && is_separator) return;
    if (joins_previous(is_separator) && out_.size() > first_) {
      out_.back().end = span.end;
    } else {
      out_.push_back(span);
    }
    had_separator_ = is_separator;
  }

  void finish() {
    const auto first = out_.begin() + static_cast<ptrdiff_t>(first_);
    out_.erase(std::remove_if(first, out_.end(), [](TextSpan span) { return span.size() == 0; }),
               out_.end());
  }

 private:
  bool joins_previous(bool is_separator) const {
    switch (behavior_) {
      case Behavior::kRemoved:
      case Behavior::kIsolated:
        return false;
      case Behavior::kContiguous:
        return is_separator == had_separator_;
      case Behavior::kMergedWithPrevious:
        return is_separator && !had_separator_;
      case Behavior::kMergedWithNext:
        return !is_separator && had_separator_;
    }
    return false;
  }

  Behavior behavior_;
  std::vector<TextSpan>& out_;
  size_t first_;
  bool had_separator_ = false;  // of the stretch before
};

// Cuts `piece` at `matches`, whose offsets count from the piece's beginning.
void cut(TextSpan piece, const std::vector<TextSpan>& matches, const PreTokenizer::Split& split,
         std::vector<TextSpan>& out) {
  Cutter cutter(split.behavior, out);
  uint32_t at = piece.begin;
  for (const TextSpan match : matches) {
    const TextSpan found = {piece.begin + match.begin, piece.begin + match.end};
    if (found.begin > at) cutter.add({at, found.begin}, split.invert);
    cutter.add(found, !split.invert);
    at = found.end;
  }
  if (at < piece.end) cutter.add({at, piece.end}, split.invert);
  cutter.finish();
}

// Gives the list a text of its own, made piece by piece.
template <class Rewrite>
void rewrite_pieces(PieceList& list, Rewrite&& rewrite) {
  std::string made;
  made.reserve(list.text.size() + list.pieces.size());
  for (TextSpan& piece : list.pieces) {
    const size_t begin = made.size();
    rewrite(piece, made);
    piece = {to_offset(begin), to_offset(made.size())};
  }
  list.buffer = std::move(made);
  list.text = list.buffer;
}

struct ApplyStep {
  bool at_start;
  RegexScratch& scratch;
  PieceList& list;

  Result<void> operator()(const PreTokenizer::Split& split) const {
    list.new_pieces.clear();
    for (const TextSpan piece : list.pieces) {
      const std::string_view text = piece.of(list.text);
      list.matches.clear();
      if (const auto* regex = std::get_if<Regex>(&split.pattern)) {
        PENSTOCK_TRY(regex->find_all(text, scratch, list.matches));
      } else {
        find_literal(text, std::get<std::string>(split.pattern), list.matches);
      }
      cut(piece, list.matches, split, list.new_pieces);
    }
    std::swap(list.pieces, list.new_pieces);
    return {};
  }

  Result<void> operator()(const PreTokenizer::Metaspace& step) const {
    using Prepend = PreTokenizer::Metaspace::Prepend;
    rewrite_pieces(list, [&](TextSpan piece, std::string& out) {
      const std::string_view text = piece.of(list.text);
      const bool wanted = step.prepend == Prepend::kAlways ||
                          (step.prepend == Prepend::kFirst && at_start && piece.begin == 0);
      if (wanted && !text.starts_with(' ') && !text.starts_with(step.mark)) out += step.mark;
      for (const char c : text) {
        if (c == ' ') {
          out += step.mark;
        } else {
          out += c;
        }
      }
    });
    if (!step.split) return {};
    return (*this)(
        PreTokenizer::Split{.pattern = step.mark, .behavior = Behavior::kMergedWithNext});
  }

  Result<void> operator()(PreTokenizer::PrefixSpace) const {
    rewrite_pieces(list, [&](TextSpan piece, std::string& out) {
      const std::string_view text = piece.of(list.text);
      if (!text.starts_with(' ')) out += ' ';
      out += text;
    });
    return {};
  }
};

Result<PreTokenizer::Split> regex_split(std::string_view pattern,
                                        Behavior behavior = Behavior::kIsolated) {
  PENSTOCK_ASSIGN(Regex regex, Regex::compile(pattern));
  return PreTokenizer::Split{.pattern = std::move(regex), .behavior = behavior};
}

Result<Behavior> behavior_from_json(const JsonObject& step, std::string_view absent) {
  PENSTOCK_ASSIGN(const std::string name, step.text_or("behavior", absent));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return fail(
      ErrorKind::kInvalidData,
      "{} is \"{}\"; expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
      step.path("behavior"), name);
}

Result<PreTokenizer::Split> split_from_json(const JsonObject& step) {
  PreTokenizer::Split split;
  PENSTOCK_ASSIGN(split.behavior, behavior_from_json(step, ""));
  PENSTOCK_ASSIGN(split.invert, step.flag_or("invert", false));
  PENSTOCK_ASSIGN(const JsonObject pattern, step.object("pattern"));
  if (pattern.find("Regex") != nullptr) {
    PENSTOCK_ASSIGN(const std::string source, pattern.text("Regex"));
    auto regex = Regex::compile(source);
    if (!regex) return std::unexpected(regex.error().in(step.where));
    split.pattern = *std::move(regex);
    return split;
  }
  PENSTOCK_ASSIGN(std::string literal, pattern.text("String"));
  if (literal.empty()) {
    return fail(ErrorKind::kInvalidData, "{} is empty; expected the text to split at",
                pattern.path("String"));
  }
  split.pattern = std::move(literal);
  return split;
}

Result<PreTokenizer::Metaspace> metaspace_from_json(const JsonObject& step) {
  using Prepend = PreTokenizer::Metaspace::Prepend;
  PreTokenizer::Metaspace metaspace;
  PENSTOCK_ASSIGN(metaspace.mark, step.text("replacement"));
  if (metaspace.mark.empty()) {
    return fail(ErrorKind::kInvalidData, "{} is empty; expected one character",
                step.path("replacement"));
  }
  PENSTOCK_ASSIGN(metaspace.split, step.flag_or("split", true));
  PENSTOCK_ASSIGN(const bool add_prefix_space,
                  step.flag_or("add_prefix_space", true));  // before 0.15
  PENSTOCK_ASSIGN(const std::string scheme,
                  step.text_or("prepend_scheme", add_prefix_space ? "always" : "never"));
  if (scheme == "always") {
    metaspace.prepend = Prepend::kAlways;
  } else if (scheme == "first") {
    metaspace.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = Prepend::kNever;
  } else {
    return fail(ErrorKind::kInvalidData, "{} is \"{}\"; expected always, first or never",
                step.path("prepend_scheme"), scheme);
  }
  return metaspace;
}

Result<void> byte_level_from_json(const JsonObject& step, std::vector<PreTokenizer::Step>& steps) {
  PENSTOCK_ASSIGN(const bool prefix, step.flag_or("add_prefix_space", true));
  PENSTOCK_ASSIGN(const bool use_regex, step.flag_or("use_regex", true));
  if (prefix) steps.emplace_back(PreTokenizer::PrefixSpace{});
  if (use_regex) {
    PENSTOCK_ASSIGN(steps.emplace_back(), regex_split(kGpt2Pattern));
  }
  return {};
}

Result<PreTokenizer::Step> step_from_json(const JsonObject& step, const std::string& type) {
  if (type == "Split") return split_from_json(step);
  if (type == "Metaspace") return metaspace_from_json(step);
  if (type == "WhitespaceSplit") return regex_split(R"(\s)", Behavior::kRemoved);
  if (type == "Digits") {
    PENSTOCK_ASSIGN(const bool single, step.flag_or("individual_digits", false));
    return regex_split(single ? R"(\p{N})" : R"(\p{N}+)");
  }
  if (type == "Punctuation") {
    PENSTOCK_ASSIGN(const Behavior behavior, behavior_from_json(step, "Isolated"));
    return regex_split(R"([!-/:-@\[-`{-~\p{P}])", behavior);
  }
  return fail(ErrorKind::kUnsupported,
              "{} is \"{}\"; supported are ByteLevel, Split, Metaspace, Digits, Punctuation, "
              "WhitespaceSplit and "
              "Sequence",
              step.path("type"), type);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::from_json(const nlohmann::json* value) {
  PENSTOCK_ASSIGN(const auto parts, json_steps(value, "pre_tokenizer", "pretokenizers"));
  std::vector<Step> steps;
  bool byte_level = false;
  for (const JsonObject& part : parts) {
    PENSTOCK_ASSIGN(const std::string type, part.text("type"));
    if (byte_level) {
      return fail(ErrorKind::kUnsupported,
                  "{} is \"{}\" after ByteLevel; ByteLevel is supported as the last step",
                  part.path("type"), type);
    }
    if (type == "ByteLevel") {
      PENSTOCK_TRY(byte_level_from_json(part, steps));
      byte_level = true;
    } else {
      PENSTOCK_ASSIGN(steps.emplace_back(), step_from_json(part, type));
    }
  }
  return PreTokenizer(std::move(steps), byte_level);
}

Result<PreTokenizer> PreTokenizer::from_patterns(std::span<const std::string_view> patterns) {
  std::vector<Step> steps;
  for (const std::string_view pattern : patterns) {
    PENSTOCK_ASSIGN(steps.emplace_back(), regex_split(pattern));
  }
  return PreTokenizer(std::move(steps), /*byte_level=*/true);
}

Result<void> PreTokenizer::apply(bool at_start, RegexScratch& scratch, PieceList& list) const {
  list.pieces.clear();
  if (list.text.empty()) return {};
  list.pieces.push_back({0, to_offset(list.text.size())});
  for (const Step& step : steps_) {
    PENSTOCK_TRY(std::visit(ApplyStep{at_start, scratch, list}, step));
  }
  return {};
}

}  // namespace penstock
