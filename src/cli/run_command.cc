// penstock run: one answer on standard output, for scripts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/engine_model.h"
#include "cli/input.h"
#include "cli/pack_verifier.h"
#include "cli/progress.h"
#include "cli/sampling_options.h"

namespace penstock {
namespace {

struct RunOptions {
  ModelOptions model = {};
  AnswerOptions answer = {.sampling = {.temperature = 0}};
  std::string prompt = {};
  std::string system = {};
  bool raw = false;
  bool quiet = false;
};

Result<std::vector<int32_t>> prompt_ids(const RunOptions& options, const ChatFormatter& chat) {
  const std::string prompt = options.prompt == "-" ? read_stdin() : options.prompt;
  if (options.raw) return chat.tokenizer().encode(prompt);
  Conversation conversation;
  if (!options.system.empty()) {
    conversation.messages.push_back({{"role", "system"}, {"content", options.system}});
  }
  conversation.messages.push_back({{"role", "user"}, {"content", prompt}});
  PENSTOCK_TRY(normalize(conversation));
  return chat.format(conversation, local_now());
}

Result<void> run(const RunOptions& options) {
  PENSTOCK_TRY(validate(options.answer.sampling));
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(
      const EngineModel model,
      start_engine(options.model, options.quiet ? ProgressFn{} : progress.function(), Log::none()));
  progress.finish();
  const PackVerifier verifier(model.unverified, warn_of_damage);
  if (!options.quiet) {
    for (const std::string& line : model.description) fmt::print(stderr, "{}\n", line);
  }
  PENSTOCK_ASSIGN(auto ids, prompt_ids(options, *model.chat));
  PENSTOCK_ASSIGN(GenerationRequest request, make_request(options.answer, std::move(ids)));
  PENSTOCK_ASSIGN(const Answer answer,
                  stream_answer(*model.engine, model.chat->tokenizer(), std::move(request)));
  fmt::print("\n");
  if (answer.end.reason == FinishReason::kAborted) {
    return fail(ErrorKind::kCancelled, "interrupted");
  }
  if (!options.quiet) fmt::print(stderr, "{}\n", answer.speed());
  return {};
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Prints one answer, for scripts.");
  command->add_option("-p,--prompt", options->prompt, "what to answer; - reads standard input")
      ->type_name("TEXT")
      ->required();
  command->add_option("--system", options->system, "a system message before the prompt")
      ->type_name("TEXT");
  command
      ->add_flag("--raw", options->raw, "continue the prompt as it is, without the chat template")
      ->excludes("--system");
  command->add_flag("-q,--quiet", options->quiet, "only the answer, nothing on standard error");
  add_answer_options(*command, options->answer);
  add_model_options(*command, options->model);
  add_kv_option(*command, options->model);
  command->footer(
      examples({{"penstock run model.gguf -p 'Name three primary colors.'",
                 "one answer, the most likely one"},
                {"penstock run model.gguf -p - --system 'Summarise.' -n 200 < notes.txt",
                 "a file as the prompt"},
                {"penstock run model.gguf --raw -p 'Once upon a time' --temperature 0.8 --seed 7",
                 "a text continued"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
