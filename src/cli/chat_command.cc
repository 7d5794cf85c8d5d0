// penstock chat: a conversation in the terminal.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/engine_model.h"
#include "cli/line_reader.h"
#include "cli/pack_verifier.h"
#include "cli/progress.h"
#include "cli/sampling_options.h"

namespace penstock {
namespace {

constexpr std::string_view kHelp =
    "/clear  forget the conversation\n"
    "/exit   leave; so does Ctrl-D\n"
    "/help   this list\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

struct ChatOptions {
  ModelOptions model = {};
  AnswerOptions answer = {.sampling = {.temperature = 0.7, .top_p = 0.95}};
  std::string system = {};
};

class Chat {
 public:
  Chat(const ChatOptions& options, const EngineModel& model, LineReader& reader)
      : options_(options), model_(model), reader_(reader) {
    clear();
  }

  // Until the person has no more to say. A turn that fails is told, and the conversation goes on
  // without it.
  void run() {
    while (const auto line = read_message()) {
      if (*line == "/exit") return;
      if (line->empty()) continue;
      if (line->front() == '/') {
        obey(*line);
      } else if (const auto done = answer(*line); !done) {
        fmt::print(stderr, "error: {}\n", done.error().text());
        conversation_.messages.erase(conversation_.messages.size() - 1);
      }
    }
  }

 private:
  std::optional<std::string> read_message() {
    std::string message;
    while (const auto line = reader_.read()) {
      message += *line;
      if (!message.ends_with('\\')) return message;
      message.back() = '\n';
    }
    return message.empty() ? std::nullopt : std::optional(message);
  }

  void obey(std::string_view command) {
    if (command == "/clear") {
      clear();
      fmt::print("The conversation is forgotten.\n");
    } else if (command == "/help") {
      fmt::print("{}", kHelp);
    } else {
      fmt::print("There is no command {}.\n{}", command, kHelp);
    }
  }

  void clear() {
    conversation_ = {};
    if (!options_.system.empty()) add("system", options_.system);
  }

  void add(std::string_view role, std::string_view content) {
    conversation_.messages.push_back({{"role", role}, {"content", content}});
  }

  Result<void> answer(const std::string& question) {
    add("user", question);
    Conversation prompt = conversation_;
    PENSTOCK_TRY(normalize(prompt));
    PENSTOCK_ASSIGN(auto ids, model_.chat->format(prompt, local_now()));
    PENSTOCK_ASSIGN(GenerationRequest request, make_request(options_.answer, std::move(ids)));
    PENSTOCK_ASSIGN(const Answer answer,
                    stream_answer(*model_.engine, model_.chat->tokenizer(), std::move(request)));
    fmt::print("\n");
    std::fflush(stdout);
    add("assistant", answer.text);
    return {};
  }

  const ChatOptions& options_;
  const EngineModel& model_;
  LineReader& reader_;
  Conversation conversation_;
};

Result<void> run(const ChatOptions& options) {
  PENSTOCK_TRY(validate(options.answer.sampling));
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const EngineModel model,
                  start_engine(options.model, progress.function(), Log::none()));
  progress.finish();
  const PackVerifier verifier(model.unverified, warn_of_damage);
  for (const std::string& line : model.description) fmt::print(stderr, "{}\n", line);
  fmt::print(stderr, "/help says what there is besides talking.\n");
  const auto reader = make_line_reader("> ", chat_history_file());
  Chat(options, model, *reader).run();
  return {};
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
  command->footer(
      examples({{"penstock chat model.gguf", "a conversation; /help inside says more"},
                {"penstock chat model.gguf --system 'Answer in one word.' --temperature 0",
                 "the same with a system message, always the likeliest answer"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
