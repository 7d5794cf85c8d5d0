#include "cli/answer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/units.h"
#include "engine/generate.h"
#include "os/signals.h"

namespace penstock {

std::string Answer::speed() const {
  const int64_t n_after_first = end.usage.completion_tokens - 1;
  std::string line = fmt::format("{} tokens in, {} out in {}", end.usage.prompt_tokens,
                                 end.usage.completion_tokens, format_seconds(seconds));
  if (n_after_first > 0 && seconds > first_seconds) {
    line += fmt::format(" ({:.1f} tok/s after the first, which took {})",
                        static_cast<double>(n_after_first) / (seconds - first_seconds),
                        format_seconds(first_seconds));
  }
  return line;
}

Result<Answer> stream_answer(Engine& engine, const Tokenizer& tokenizer,
                             GenerationRequest request) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  Answer answer;
  SignalCatcher ctrl_c({SIGINT});
  const auto show = [&](std::string_view piece) {
    if (!piece.empty()) {
      if (answer.text.empty()) answer.first_seconds = elapsed();
      answer.text += piece;
      fmt::print("{}", piece);
      std::fflush(stdout);
    }
    return !ctrl_c.take();
  };
  PENSTOCK_ASSIGN(answer.end, generate(engine, tokenizer, std::move(request), show));
  answer.seconds = elapsed();
  return answer;
}

}  // namespace penstock
