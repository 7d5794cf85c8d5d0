// The perplexity of a text: exp of the mean of -log p(token | those before it), over windows.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/sequence_runner.h"
#include "text/tokenizer.h"

namespace penstock {

struct TextTokens {
  std::vector<int32_t> prefix =
      {};  // what the tokenizer puts in front of every text: BOS, or nothing
  std::vector<int32_t> ids = {};
};
Result<TextTokens> tokens_of(const Tokenizer& tokenizer, std::string_view text);

struct WindowPlan {
  int64_t window = 512;  // tokens of the text that are run together, behind the prefix
  int64_t stride = 512;  // from one window's start to the next; at most `window`
};

// [begin, counted)  run for context only
// [counted, end)    count
struct Window {
  int64_t begin = 0;
  int64_t counted = 0;
  int64_t end = 0;

  bool operator==(const Window&) const = default;
};

// Windows over n_tokens, each from its start afresh. A token counts in the first window that has
// something before it; without a prefix, a window's first token has nothing.
std::vector<Window> plan_windows(int64_t n_tokens, bool has_prefix, const WindowPlan& plan);

// The most tokens that one window runs, prefix included.
int64_t longest_run(const TextTokens& tokens, const WindowPlan& plan);

// Refuses a plan that skips tokens or does not fit the context, and a text with nothing to predict.
Result<void> check(const WindowPlan& plan, const TextTokens& tokens, int64_t context_length);

struct Perplexity {
  double total_nll = 0;
  int64_t n_tokens = 0;            // that counted
  std::vector<int32_t> best = {};  // for each of them, what the model found most likely

  double mean_nll() const { return total_nll / static_cast<double>(n_tokens); }
  double perplexity() const { return std::exp(mean_nll()); }
};

// `origin`: as what the model takes the text.
Result<Perplexity> measure(SequenceRunner& runner, const TextTokens& tokens, const WindowPlan& plan,
                           TokenOrigin origin = TokenOrigin::kPrompt);

// The share of tokens for which both found the same most likely: of one text in the same windows.
double top_1_agreement(const Perplexity& a, const Perplexity& b);

}  // namespace penstock
