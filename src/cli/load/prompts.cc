#include "cli/load/prompts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/json.h"

namespace penstock {
namespace {

// Common enough to be one token each in most vocabularies.
constexpr auto kWords = std::to_array<std::string_view>({
    "about",    "above",   "after",  "again",   "air",      "all",     "also",     "always",
    "and",      "animal",  "answer", "ask",     "autumn",   "away",    "back",     "because",
    "been",     "before",  "began",  "below",   "better",   "between", "bird",     "black",
    "blue",     "boat",    "body",   "book",    "both",     "box",     "bread",    "bring",
    "brother",  "build",   "call",   "came",    "car",      "carry",   "change",   "children",
    "city",     "clear",   "close",  "cold",    "color",    "come",    "common",   "could",
    "country",  "cut",     "dark",   "day",     "deep",     "did",     "door",     "down",
    "draw",     "dry",     "each",   "early",   "earth",    "eat",     "end",      "enough",
    "even",     "every",   "eye",    "face",    "family",   "far",     "farm",     "father",
    "feet",     "few",     "field",  "find",    "fire",     "first",   "fish",     "five",
    "follow",   "food",    "form",   "found",   "four",     "friend",  "from",     "game",
    "garden",   "gave",    "girl",   "give",    "good",     "great",   "green",    "ground",
    "group",    "grow",    "half",   "hand",    "hard",     "head",    "hear",     "help",
    "here",     "high",    "hold",   "home",    "horse",    "hour",    "house",    "idea",
    "into",     "island",  "just",   "keep",    "kind",     "king",    "know",     "land",
    "large",    "last",    "late",   "learn",   "leave",    "left",    "letter",   "life",
    "light",    "like",    "line",   "list",    "little",   "live",    "long",     "look",
    "made",     "make",    "many",   "map",     "mark",     "mean",    "might",    "mile",
    "money",    "moon",    "more",   "morning", "most",     "mother",  "mountain", "move",
    "much",     "music",   "name",   "near",    "never",    "new",     "next",     "night",
    "north",    "note",    "now",    "number",  "off",      "often",   "old",      "once",
    "only",     "open",    "order",  "other",   "over",     "own",     "page",     "paper",
    "part",     "pass",    "people", "picture", "place",    "plan",    "plant",    "play",
    "point",    "power",   "public", "put",     "question", "quick",   "rain",     "read",
    "red",      "rest",    "right",  "river",   "road",     "rock",    "room",     "round",
    "run",      "said",    "same",   "school",  "sea",      "second",  "see",      "seem",
    "sentence", "set",     "seven",  "several", "ship",     "short",   "show",     "side",
    "simple",   "since",   "sing",   "size",    "small",    "snow",    "some",     "song",
    "soon",     "south",   "stand",  "start",   "state",    "stay",    "still",    "stone",
    "stop",     "story",   "street", "strong",  "study",    "such",    "summer",   "sun",
    "table",    "take",    "talk",   "tell",    "than",     "their",   "them",     "then",
    "there",    "thing",   "think",  "three",   "time",     "today",   "told",     "took",
    "top",      "toward",  "town",   "tree",    "true",     "turn",    "under",    "until",
    "voice",    "walk",    "want",   "warm",    "watch",    "water",   "week",     "well",
    "west",     "what",    "wheel",  "when",    "where",    "white",   "wind",     "winter",
    "with",     "without", "wood",   "word",    "work",     "world",   "write",    "year",
});

constexpr uint64_t kSharedWords = ~uint64_t{0};  // where a request's number would be
constexpr size_t kCharactersPerToken = 4;

void append_words(std::string& text, Random& random, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<size_t>(integer_draw(random, std::ssize(kWords)))];
  }
}

// The turn's text if `speaker` is one of the two names.
const std::string* turn_of(const Json& turns, size_t place, std::string_view name,
                           std::string_view other_name) {
  const Json& turn = turns[place];
  if (!turn.is_object() || !turn.contains("from") || !turn.contains("value")) return nullptr;
  if (turn["from"] != name && turn["from"] != other_name) return nullptr;
  const auto* value = turn["value"].get_ptr<const std::string*>();
  return value != nullptr && !value->empty() ? value : nullptr;
}

std::optional<LoadRequest> first_turns(const Json& conversation) {
  if (!conversation.is_object() || !conversation.contains("conversations")) return std::nullopt;
  const Json& turns = conversation["conversations"];
  if (!turns.is_array() || turns.size() < 2) return std::nullopt;
  const std::string* question = turn_of(turns, 0, "human", "user");
  const std::string* answer = turn_of(turns, 1, "gpt", "assistant");
  if (question == nullptr || answer == nullptr) return std::nullopt;
  const size_t n_tokens = std::max<size_t>(1, answer->size() / kCharactersPerToken);
  return LoadRequest{.prompt = *question, .max_tokens = static_cast<int64_t>(n_tokens)};
}

}  // namespace

int64_t PromptSizing::words_for(int64_t n_tokens) const {
  const double n = (static_cast<double>(n_tokens) - overhead) / per_word;
  return std::max<int64_t>(1, std::llround(n));
}

std::string random_words(Random& random, int64_t n) {
  std::string text;
  append_words(text, random, n);
  return text;
}

LoadRequest WordPrompts::request(int64_t i) const {
  Random own = random_for(seed, row, static_cast<uint64_t>(i));
  const int64_t n_words = sizing.words_for(prompt_tokens.draw(own));
  LoadRequest request = {.max_tokens = output_tokens.draw(own)};
  const auto n_shared = static_cast<int64_t>(shared_part * static_cast<double>(n_words));
  Random shared = random_for(seed, row, kSharedWords);
  append_words(request.prompt, shared, n_shared);
  append_words(request.prompt, own, n_words - n_shared);
  return request;
}

Result<std::vector<LoadRequest>> parse_dataset(std::string_view text, std::string_view source) {
  const Result<Json> file = parse_json(text);
  if (!file) return std::unexpected(file.error().in(source));
  std::vector<LoadRequest> requests;
  if (file->is_array()) {
    for (const Json& conversation : *file) {
      if (auto request = first_turns(conversation)) requests.push_back(*std::move(request));
    }
  }
  if (requests.empty()) {
    return fail(ErrorKind::kInvalidData,
                "{}: found no conversation, expected a list of objects whose \"conversations\" "
                "begin with a human's and a gpt's turn",
                source);
  }
  return requests;
}

// Fisher and Yates, because std::shuffle may differ between libraries.
void shuffle(std::vector<LoadRequest>& requests, uint64_t seed) {
  Random random = random_for(seed, /*a=*/0);
  for (size_t n = requests.size(); n > 1; --n) {
    std::swap(requests[n - 1],
              requests[static_cast<size_t>(integer_draw(random, static_cast<int64_t>(n)))]);
  }
}

}  // namespace penstock
