// penstock chat: a conversation in the terminal, with a model of its own or a server's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/answer.h"
#include "cli/chat_loop.h"
#include "cli/client/chat_remote.h"
#include "cli/client/server_options.h"
#include "cli/command.h"
#include "cli/engine_model.h"
#include "cli/line_reader.h"
#include "cli/pack_verifier.h"
#include "cli/progress.h"
#include "cli/sampling_options.h"

namespace penstock {
namespace {

struct ChatOptions {
  ModelOptions model = {};
  AnswerOptions answer = {.sampling = {.temperature = 0.7, .top_p = 0.95}};
  std::string system = {};
  ServerAddress server = {};
  std::string server_model = {};
};

Result<std::string> local_answer(const ChatOptions& options, const EngineModel& model,
                                 const OrderedJson& messages) {
  Conversation prompt = {.messages = messages};
  PENSTOCK_TRY(normalize(prompt));
  PENSTOCK_ASSIGN(auto ids, model.chat->format(prompt, local_now()));
  PENSTOCK_ASSIGN(GenerationRequest request, make_request(options.answer, std::move(ids)));
  PENSTOCK_ASSIGN(Answer answer,
                  stream_answer(*model.engine, model.chat->tokenizer(), std::move(request)));
  return std::move(answer.text);
}

void talk(const ChatOptions& options, AnswerFn answer) {
  const auto reader = make_line_reader("> ", chat_history_file());
  ChatLoop(options.system, *reader, std::move(answer)).run();
}

Result<void> chat_with_model(const ChatOptions& options) {
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const EngineModel model,
                  start_engine(options.model, progress.function(), Log::none()));
  progress.finish();
  const PackVerifier verifier(model.unverified, warn_of_damage);
  for (const std::string& line : model.description) fmt::print(stderr, "{}\n", line);
  talk(options,
       [&](const OrderedJson& messages) { return local_answer(options, model, messages); });
  return {};
}

Result<void> chat_with_server(const ChatOptions& options) {
  PENSTOCK_ASSIGN(ClientOptions connection, client_options(options.server));
  BlockingClient client(std::move(connection));
  PENSTOCK_ASSIGN(const std::string model, choose_model(client, options.server_model));
  fmt::print(stderr, "{} at {}\n", model, client.url().text);
  talk(options, [&](const OrderedJson& messages) {
    return show_remote_answer(client, chat_body(model, messages, options.answer));
  });
  return {};
}

Result<void> run(const ChatOptions& options) {
  PENSTOCK_TRY(validate(options.answer.sampling));
  if (!options.server.url.empty()) return chat_with_server(options);
  if (options.model.path.empty()) {
    return fail(ErrorKind::kInvalidArgument, "MODEL or --server is required");
  }
  return chat_with_model(options);
}

}  // namespace

void add_chat_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talks with a model in the terminal.");
  command->add_option("--system", options->system, "a system message before the conversation")
      ->type_name("TEXT");
  add_answer_options(*command, options->answer);
  add_model_options(*command, options->model);
  add_kv_option(*command, options->model);
  CLI::Option* server = add_server_options(
      *command, "--server", "talk with a server's model instead of loading one", options->server);
  add_server_model_option(*command, options->server_model)->needs(server);
  instead_of_model(*command, *server);
  command->footer(
      examples({{"penstock chat model.gguf", "a conversation; /help inside says more"},
                {"penstock chat model.gguf --system 'Answer in one word.' --temperature 0",
                 "the same with a system message, always the likeliest answer"},
                {"penstock chat --server http://127.0.0.1:8080",
                 "with the model of a server that runs already"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
