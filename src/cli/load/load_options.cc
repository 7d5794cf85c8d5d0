// The options of `bench --url`.
#include <CLI/CLI.hpp>
#include <map>

#include "cli/load/measure_server.h"

namespace penstock {
namespace {

constexpr const char* kGroup = "Load";

void add_shape_options(CLI::App& command, LoadBenchOptions& options) {
  CLI::Option* concurrency =
      command
          .add_option("--concurrency", options.concurrency,
                      "clients that each send a request when they have their last answer; a list, "
                      "1,4,16, is measured one after the other [1]")
          ->type_name("N")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(1, 4096).description(""))
          ->group(kGroup);
  command
      .add_option("--rate", options.rates,
                  "requests a second that begin whatever the server does, at random moments (a "
                  "Poisson process); a list is measured one after the other")
      ->type_name("R")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1e-6, 1e6).description(""))
      ->excludes(concurrency)
      ->group(kGroup);
  command
      .add_option("--requests", options.n_requests,
                  "how many to send for each row; 8 for each client, or 30 seconds of --rate, "
                  "unless given")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->group(kGroup);
  command
      .add_option("--seconds", options.seconds,
                  "begin no request later than this; those that run are waited for")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e6))
      ->group(kGroup);
}

void add_content_options(CLI::App& command, LoadBenchOptions& options) {
  CLI::Option* prompt_tokens =
      command
          .add_option("--prompt-tokens", options.prompt_tokens,
                      "length of prompts: N, uniform:LOW-HIGH or lognormal:MEDIAN,SIGMA")
          ->type_name("LENGTHS")
          ->capture_default_str()
          ->group(kGroup);
  command
      .add_option("--output-tokens", options.output_tokens,
                  "max_tokens of requests, in the same ways; the dataset's answers', or 64")
      ->type_name("LENGTHS")
      ->group(kGroup);
  CLI::Option* shared = command
                            .add_option("--shared-prefix", options.shared_prefix,
                                        "the part of each prompt, from its beginning, that all of "
                                        "a row have in common: 0 to 1")
                            ->type_name("PART")
                            ->check(CLI::Range(0.0, 1.0).description(""))
                            ->capture_default_str()
                            ->group(kGroup);
  command
      .add_option("--dataset", options.dataset,
                  "prompts and answer lengths from a ShareGPT file instead of words")
      ->type_name("FILE")
      ->excludes(prompt_tokens)
      ->excludes(shared)
      ->group(kGroup);
  command
      .add_option("--seed", options.seed,
                  "decides prompts, lengths and arrivals; the same seed again meets the prefixes "
                  "that the server has kept")
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
}

}  // namespace

CLI::Option* add_load_options(CLI::App& command, LoadBenchOptions& options) {
  static const std::map<std::string, LoadRoute> kRoutes = {
      {"chat", LoadRoute::kChat}, {"completions", LoadRoute::kCompletions}};
  CLI::Option* url = add_server_options(command, "--url",
                                        "measure a running server, of any make, instead of a model",
                                        options.server);
  add_server_model_option(command, options.model)->needs(url);
  add_shape_options(command, options);
  add_content_options(command, options);
  command
      .add_option("--route", options.route, "chat, or completions: without a chat template [chat]")
      ->type_name("ROUTE")
      ->transform(CLI::CheckedTransformer(kRoutes).description(""))
      ->group(kGroup);
  command
      .add_flag("--ignore-eos", options.ignore_eos,
                "let every answer have all its tokens; a field that not every server knows")
      ->group(kGroup);
  return url;
}

}  // namespace penstock
