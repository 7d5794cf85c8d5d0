#include "cli/perplexity.h"

#include <algorithm>

#include "base/check.h"

namespace penstock {
namespace {

// -log softmax(logits)[id]
double negative_log_likelihood(std::span<const float> logits, int32_t id) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(id)]);
}

Result<void> measure_window(SequenceRunner& runner, const TextTokens& tokens, const Window& window,
                            TokenOrigin origin, Perplexity& total) {
  const std::span<const int32_t> text = tokens.ids;
  std::vector<int32_t> run = tokens.prefix;
  run.insert(run.end(), text.begin() + window.begin, text.begin() + window.end);
  const auto n_counted = static_cast<size_t>(window.end - window.counted);
  const std::span<const int32_t> targets = std::span(run).last(n_counted);
  // The row of a token predicts the next one: rows begin one before the first target, and nobody
  // asks for the last token's.
  const std::span<const int32_t> context = std::span(run).first(run.size() - n_counted - 1);
  const std::span<const int32_t> predicting =
      std::span(run).subspan(run.size() - n_counted - 1, n_counted);

  size_t n_done = 0;
  PENSTOCK_TRY(runner.begin(static_cast<int64_t>(run.size())));
  PENSTOCK_TRY(runner.extend(context, origin, LogitRows::kNone, {}));
  PENSTOCK_TRY(runner.extend(predicting, origin, LogitRows::kAll, [&](std::span<const float> rows) {
    const size_t vocab_size = static_cast<size_t>(runner.vocab_size());
    for (; !rows.empty(); rows = rows.subspan(vocab_size)) {
      const std::span<const float> logits = rows.first(vocab_size);
      total.total_nll += negative_log_likelihood(logits, targets[n_done++]);
      total.best.push_back(most_likely(logits));
    }
    return Result<void>();
  }));
  total.n_tokens += static_cast<int64_t>(n_counted);
  return {};
}

}  // namespace

Result<TextTokens> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  PENSTOCK_ASSIGN(std::vector<int32_t> plain, tokenizer.encode(text, {.add_special = false}));
  PENSTOCK_ASSIGN(const std::vector<int32_t> whole, tokenizer.encode(text, {.add_special = true}));
  // What comes before the text; what comes after it (EOS, for some) predicts nothing.
  const auto start = std::ranges::search(whole, plain).begin();
  return TextTokens{.prefix = {whole.begin(), start}, .ids = std::move(plain)};
}

std::vector<Window> plan_windows(int64_t n_tokens, bool has_prefix, const WindowPlan& plan) {
  std::vector<Window> windows;
  int64_t counted = 0;  // [0, counted) is behind us
  for (int64_t begin = 0; counted < n_tokens; begin += plan.stride) {
    const int64_t first = has_prefix ? begin : begin + 1;
    const int64_t end = std::min(begin + plan.window, n_tokens);
    const Window window = {.begin = begin, .counted = std::max(counted, first), .end = end};
    if (window.counted < window.end) windows.push_back(window);
    counted = end;
  }
  return windows;
}

int64_t longest_run(const TextTokens& tokens, const WindowPlan& plan) {
  const auto n_tokens = static_cast<int64_t>(tokens.ids.size());
  return static_cast<int64_t>(tokens.prefix.size()) + std::min(plan.window, n_tokens);
}

Result<void> check(const WindowPlan& plan, const TextTokens& tokens, int64_t context_length) {
  if (plan.stride > plan.window) {
    return fail(
        ErrorKind::kInvalidArgument,
        "--stride {} is more than --window {}: tokens between the windows would be left out",
        plan.stride, plan.window);
  }
  if (const int64_t longest = longest_run(tokens, plan); longest > context_length) {
    return fail(ErrorKind::kInvalidArgument,
                "--window {} runs {} tokens together, the model's context has {}", plan.window,
                longest, context_length);
  }
  if (tokens.prefix.size() + tokens.ids.size() < 2) {
    return fail(ErrorKind::kInvalidData, "the text has {} tokens: nothing to predict",
                tokens.ids.size());
  }
  return {};
}

Result<Perplexity> measure(SequenceRunner& runner, const TextTokens& tokens, const WindowPlan& plan,
                           TokenOrigin origin) {
  Perplexity total;
  const auto n_tokens = static_cast<int64_t>(tokens.ids.size());
  for (const Window& window : plan_windows(n_tokens, !tokens.prefix.empty(), plan)) {
    PENSTOCK_TRY(measure_window(runner, tokens, window, origin, total));
  }
  return total;
}

double top_1_agreement(const Perplexity& a, const Perplexity& b) {
  PENSTOCK_CHECK(a.best.size() == b.best.size() && !a.best.empty(), "not of the same windows");
  int64_t n_equal = 0;
  for (size_t i = 0; i < a.best.size(); ++i) n_equal += a.best[i] == b.best[i] ? 1 : 0;
  return static_cast<double>(n_equal) / static_cast<double>(a.best.size());
}

}  // namespace penstock
