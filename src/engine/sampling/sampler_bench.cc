// What choosing one token costs, by vocabulary and options. The engine may spend 3 % of a step on
// all its bookkeeping: 150 us of 5 ms, for 8 sequences.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu/isa.h"
#include "engine/sampling/sampler.h"

namespace penstock {
namespace {

// As a model's: most tokens far below some hundreds that fall off from the likeliest.
std::vector<float> sure_logits(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  for (size_t i = 0; i < 300; ++i) {
    logits[(i * 7919 + 5) % n] =
        18.0F - 0.6F * static_cast<float>(i % 20) - 0.02F * static_cast<float>(i);
  }
  return logits;
}

// As of a model that knows nothing: a nucleus holds a good part of the vocabulary.
std::vector<float> unsure_logits(size_t n) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Allows a tenth of the words of 64 tokens whole, and nothing else.
class SomeWords : public TokenMask {
 public:
  explicit SomeWords(size_t n_tokens) : words_((n_tokens + 63) / 64) {
    for (size_t i = 0; i < words_.size(); i += 10) words_[i] = ~uint64_t{0};
  }
  Result<std::span<const uint64_t>> allowed() override { return words_; }
  Result<void> accept(int32_t) override { return {}; }

 private:
  std::vector<uint64_t> words_;
};

void run(benchmark::State& state, const SamplingOptions& options, std::vector<float> logits,
         std::shared_ptr<TokenMask> mask, Isa isa) {
  std::vector<int32_t> tokens(2000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 9973);
  Sampler sampler(options, std::move(mask), isa);
  for (auto _ : state) {
    auto token = sampler.sample(logits, {.tokens = tokens, .n_prompt = 1000});
    benchmark::DoNotOptimize(token);
  }
}

void add(const std::string& name, const SamplingOptions& options, bool sure = true,
         bool masked = false) {
  for (const size_t n : {49'152, 151'936}) {
    for (const Isa isa : supported_isas()) {
      if (isa == Isa::kScalar) continue;  // correct, and slow by design
      const std::string full = name + "/" + std::to_string(n) + "/" + std::string(to_string(isa));
      benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
        run(state, options, sure ? sure_logits(n) : unsure_logits(n),
            masked ? std::make_shared<SomeWords>(n) : nullptr, isa);
      })->Unit(benchmark::kMicrosecond);
    }
  }
}

const bool kRegistered = [] {
  add("greedy", {.temperature = 0.0});
  add("plain", {});
  add("top_k_40", {.temperature = 0.8, .top_k = 40});
  add("top_k_20_top_p", {.temperature = 0.7, .top_k = 20, .top_p = 0.8});
  add("top_p", {.temperature = 0.8, .top_p = 0.95});
  add("top_p_unsure", {.top_p = 0.95}, /*sure=*/false);
  add("min_p", {.min_p = 0.05});
  add("typical_p", {.typical_p = 0.9});
  add("greedy_penalties", {.temperature = 0.0, .repetition_penalty = 1.1, .presence_penalty = 0.5});
  add("greedy_mask", {.temperature = 0.0}, /*sure=*/true, /*masked=*/true);
  add("greedy_20_logprobs", {.temperature = 0.0, .n_top_logprobs = 20});
  return true;
}();

}  // namespace
}  // namespace penstock
