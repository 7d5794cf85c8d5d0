#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <random>
#include <utility>

namespace penstock {
namespace {

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

void add_answer_options(CLI::App& command, AnswerOptions& options) {
  constexpr const char* kGroup = "Answer";
  SamplingOptions& sampling = options.sampling;
  const auto add_number = [&](const char* name, auto& value, const char* description) {
    command.add_option(name, value, description)
        ->type_name("X")
        ->capture_default_str()
        ->group(kGroup);
  };
  command
      .add_option("-n,--max-tokens", options.max_tokens,
                  "the answer's length; what the context leaves free unless given")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group(kGroup);
  command
      .add_option("--stop", options.stop,
                  "end the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kGroup);
  add_number("--temperature", sampling.temperature, "0 to 2; 0 always takes the most likely token");
  add_number("--top-k", sampling.top_k, "choose among the k most likely tokens; 0: among all");
  add_number("--top-p", sampling.top_p,
             "choose among the likeliest tokens that hold this probability together");
  add_number("--min-p", sampling.min_p,
             "leave out tokens less likely than this part of the likeliest one's probability");
  add_number("--repetition-penalty", sampling.repetition_penalty,
             "above 1: make tokens of prompt and answer less likely");
  add_number("--presence-penalty", sampling.presence_penalty,
             "-2 to 2: subtracted from the logits of tokens in the answer");
  add_number("--frequency-penalty", sampling.frequency_penalty,
             "-2 to 2: subtracted once for each time a token is in the answer");
  command.add_option("--seed", options.seed, "makes the same choices again; random unless given")
      ->type_name("N")
      ->group(kGroup);
}

Result<GenerationRequest> make_request(const AnswerOptions& options, std::vector<int32_t> prompt) {
  PENSTOCK_TRY(validate(options.sampling));
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.sampling.seed = options.seed ? *options.seed : random_seed();
  if (options.max_tokens) request.max_tokens = *options.max_tokens;
  request.stop = options.stop;
  return request;
}

}  // namespace penstock
