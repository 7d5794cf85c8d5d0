// penstock serve: the OpenAI API over HTTP, until SIGTERM or Ctrl-C.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>

#include "cli/command.h"
#include "cli/engine_model.h"
#include "cli/pack_verifier.h"
#include "cli/progress.h"
#include "os/signals.h"
#include "server/server.h"

namespace penstock {
namespace {

struct ServeOptions {
  ModelOptions model = {};
  ServerOptions server = {.port = 8080};
  std::string name = {};
  int drain_seconds = 30;
};

// Answers what runs, for so long; another signal ends the wait.
void drain(Server& server, SignalCatcher& signals, int seconds, const Log& log) {
  using Clock = std::chrono::steady_clock;
  log.info("draining: new requests are refused, running ones have {} s", seconds);
  const auto limit = Clock::now() + std::chrono::seconds(seconds);
  while (!server.drain(std::chrono::milliseconds(200))) {
    if (signals.take() || Clock::now() >= limit) {
      log.warn("running requests are cut off");
      break;
    }
  }
  server.stop();
  log.info("stopped");
}

Result<void> run(const ServeOptions& options) {
  const Log log = Log::to_stderr();
  PENSTOCK_ASSIGN(const auto server, Server::start(options.server, log));
  log.info("listening on http://{}:{}", options.server.host, server->port());

  ProgressDisplay display;
  const ProgressFn show = display.function();
  const ProgressFn progress = [&](const ProgressUpdate& update) {
    server->set_progress(update);
    show(update);
  };
  // Before there is a model there is nothing to drain, and a signal simply ends the program.
  PENSTOCK_ASSIGN(EngineModel model, start_engine(options.model, progress, log));
  SignalCatcher signals({SIGTERM, SIGINT});
  display.finish();
  for (const std::string& line : model.description) log.info("{}", line);
  const AnswerFormat& answers = model.chat->answer_format();
  log.info("answers: tool calls {}, reasoning {}", tool_form_name(answers.tools),
           reasoning_name(answers.reasoning));

  // A damaged pack ends the server as an operator would, only that it is a failure. Relaxed: the
  // signal is what wakes the reader.
  std::atomic<bool> damaged = false;
  const PackVerifier verifier(std::move(model.unverified), [&](const Error& damage) {
    log.error("the pack is damaged: {}", damage.text());
    damaged.store(true, std::memory_order_relaxed);
    std::raise(SIGTERM);
  });
  const std::string name = options.name.empty() ? model.name : options.name;
  server->set_ready(
      {.name = name, .engine = std::move(model.engine), .chat = std::move(model.chat)});
  log.info("ready: serving {} on http://{}:{}/v1", name, options.server.host, server->port());
  signals.wait();
  drain(*server, signals, options.drain_seconds, log);
  if (damaged) return fail(ErrorKind::kInvalidData, "stopped because the pack is damaged");
  return {};
}

}  // namespace

void add_serve_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serves the OpenAI API over HTTP.");
  command
      ->add_option("--host", options->server.host,
                   "the numeric address to listen on; 0.0.0.0 for every interface")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_option("--port", options->server.port, "0 takes a free one and says which")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--name", options->name,
                   "the model's name in /v1/models; its file's name unless given")
      ->type_name("NAME");
  command
      ->add_option("--drain-seconds", options->drain_seconds,
                   "how long SIGTERM waits for running answers; a second signal does not wait")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  add_model_options(*command, options->model);
  add_kv_option(*command, options->model);
  add_answer_options(*command, options->model);
  command->footer(
      examples({{"penstock serve model.gguf", "http://127.0.0.1:8080/v1, for this machine only"},
                {"penstock serve model.gguf --host 0.0.0.0 --port 80 --name smollm",
                 "for every machine that reaches this one"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
