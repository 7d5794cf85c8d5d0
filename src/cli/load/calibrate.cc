#include "cli/load/calibrate.h"

#include <array>
#include <utility>

#include "base/json.h"

namespace penstock {
namespace {

// Short enough for a small context, far enough apart that the words' own average counts.
constexpr std::array<int64_t, 2> kWords = {8, 72};
constexpr uint64_t kCalibrationRow = ~uint64_t{0};  // no prompt of a row begins like these

std::optional<int64_t> count_in_usage(std::string_view body) {
  const Result<Json> answer = parse_json(body);
  if (!answer || !answer->is_object() || !answer->contains("usage")) return std::nullopt;
  const Json& usage = (*answer)["usage"];
  if (!usage.is_object() || !usage.contains("prompt_tokens")) return std::nullopt;
  const Json& count = usage["prompt_tokens"];
  return count.is_number_unsigned() ? std::optional(count.get<int64_t>()) : std::nullopt;
}

// {"tokens": [...]}, as llama-server and Penstock say it, or {"count": n}, as vLLM does.
std::optional<int64_t> count_by_tokenize(BlockingClient& client, const LoadTarget& target,
                                         const std::string& text) {
  const Json body = {{"model", target.model}, {"content", text}, {"prompt", text}};
  const auto reply = client.call({.method = "POST", .path = "/tokenize", .body = body.dump()});
  if (!reply) return std::nullopt;
  const Result<Json> answer = parse_json(reply->body);
  if (!answer || !answer->is_object()) return std::nullopt;
  if (answer->contains("tokens") && (*answer)["tokens"].is_array()) {
    return static_cast<int64_t>((*answer)["tokens"].size());
  }
  const auto count = answer->find("count");
  if (count == answer->end() || !count->is_number_unsigned()) return std::nullopt;
  return count->get<int64_t>();
}

}  // namespace

Result<std::optional<PromptSizing>> calibrate(BlockingClient& client, const LoadTarget& target,
                                              uint64_t seed) {
  std::array<int64_t, 2> counts = {};
  for (size_t i = 0; i < counts.size(); ++i) {
    Random random = random_for(seed, kCalibrationRow, i);
    const std::string prompt = random_words(random, kWords[i]);
    const auto reply =
        client.call(load_call(target, {.prompt = prompt, .max_tokens = 1}, /*stream=*/false));
    if (!reply) return std::unexpected(reply.error().error());
    auto count = count_in_usage(reply->body);
    if (!count) count = count_by_tokenize(client, target, prompt);
    if (!count) return std::nullopt;
    counts[i] = *count;
  }
  const auto per_word =
      static_cast<double>(counts[1] - counts[0]) / static_cast<double>(kWords[1] - kWords[0]);
  if (per_word <= 0) return std::nullopt;  // whatever it counts, it is not the prompt
  return PromptSizing{
      .overhead = static_cast<double>(counts[0]) - per_word * static_cast<double>(kWords[0]),
      .per_word = per_word};
}

}  // namespace penstock
