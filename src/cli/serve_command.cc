// penstock serve: the OpenAI API over HTTP, until SIGTERM or Ctrl-C.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/api_keys.h"
#include "cli/command.h"
#include "cli/engine_model.h"
#include "cli/pack_verifier.h"
#include "cli/progress.h"
#include "os/environment.h"
#include "os/signals.h"
#include "server/server.h"

namespace penstock {
namespace {

struct ServeOptions {
  ModelOptions model = {};
  ServerOptions server = {.port = 8080};
  std::string name = {};
  std::filesystem::path api_key_file = {};
  double request_seconds = 0;
  double keep_alive_seconds = 10;
  int drain_seconds = 30;
};

constexpr const char* kKeyVariable = "PENSTOCK_API_KEY";

// From the flags, the file and the environment together.
Result<std::vector<std::string>> api_keys(const ServeOptions& options) {
  std::vector<std::string> keys = options.server.access.api_keys;
  PENSTOCK_TRY(check_keys(keys, "--api-key"));
  if (!options.api_key_file.empty()) {
    PENSTOCK_ASSIGN(const auto from_file, read_key_file(options.api_key_file));
    keys.insert(keys.end(), from_file.begin(), from_file.end());
  }
  if (const std::string key(environment_variable(kKeyVariable)); !key.empty()) {
    PENSTOCK_TRY(check_keys({key}, kKeyVariable));
    keys.push_back(key);
  }
  return keys;
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Result<ServerOptions> server_options(const ServeOptions& options) {
  ServerOptions server = options.server;
  PENSTOCK_ASSIGN(server.access.api_keys, api_keys(options));
  server.answer_timeout = milliseconds_of(options.request_seconds);
  server.keep_alive_interval = milliseconds_of(options.keep_alive_seconds);
  server.on_stop = [] { std::raise(SIGTERM); };
  return server;
}

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

// How a single stream decoded, beside what the plan said of it; not of a few tokens, which tell
// little.
void log_decode(const LoneDecode& decode, std::optional<double> planned_tok_s, const Log& log) {
  constexpr int64_t kFewest = 16;
  if (decode.n_steps < kFewest || decode.seconds <= 0) return;
  log.info("a single stream decoded {:.1f} tok/s ({} tokens{})",
           static_cast<double>(decode.n_steps) / decode.seconds, decode.n_steps,
           planned_tok_s ? fmt::format("; planned {:.1f}", *planned_tok_s) : "");
}

Result<void> run(const ServeOptions& options) {
  if (!options.model.kv_spill.empty() && options.server.prefix_sharing == PrefixSharing::kOff) {
    return fail(ErrorKind::kInvalidArgument,
                "--kv-spill keeps what prompts have in common, but --prefix-sharing is off");
  }
  const Log log = Log::to_stderr();
  PENSTOCK_ASSIGN(ServerOptions server_settings, server_options(options));
  PENSTOCK_ASSIGN(const auto server, Server::start(std::move(server_settings), log));
  log.info("listening on {}", server->address());

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
  const std::shared_ptr<const Engine> engine = model.engine;
  server->set_ready(
      {.name = name, .engine = std::move(model.engine), .chat = std::move(model.chat)});
  log.info("ready: serving {} on {}", name, server->address());
  signals.wait();
  drain(*server, signals, options.drain_seconds, log);
  log_decode(engine->stats().lone_decode, model.planned_tok_s, log);
  if (damaged) return fail(ErrorKind::kInvalidData, "stopped because the pack is damaged");
  return {};
}

void add_address_options(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--host", options.server.host,
                  "the numeric address to listen on; 0.0.0.0 for every interface")
      ->type_name("ADDRESS")
      ->capture_default_str();
  CLI::Option* port =
      command.add_option("--port", options.server.port, "0 takes a free one and says which")
          ->type_name("N")
          ->capture_default_str();
  command
      .add_option("--unix-socket", options.server.unix_socket,
                  "listen on this path instead, for this user alone")
      ->type_name("PATH")
      ->excludes(port);
  command
      .add_option("--name", options.name,
                  "the model's name in /v1/models; its file's name unless given")
      ->type_name("NAME");
}

void add_access_options(CLI::App& command, ServeOptions& options) {
  AccessOptions& access = options.server.access;
  command
      .add_option("--api-key", access.api_keys,
                  "what every request but /health must bring; may be given several times. "
                  "PENSTOCK_API_KEY is one more")
      ->type_name("KEY")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--api-key-file", options.api_key_file, "a file with a key on each line")
      ->type_name("FILE");
  command
      .add_option("--cors-origin", access.cors_origin,
                  "the web page that may use the API: https://app.example")
      ->type_name("ORIGIN");
  command
      .add_option("--allowed-host", access.allowed_hosts,
                  "a host name, beside localhost, that a server on the loopback interface answers "
                  "to; may be given several times")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const std::map<std::string, PrefixSharing> sharing = {
      {"key", PrefixSharing::kKey}, {"all", PrefixSharing::kAll}, {"off", PrefixSharing::kOff}};
  command
      .add_option("--prefix-sharing", options.server.prefix_sharing,
                  "whose prompts may share what was computed for their beginning: those of one API "
                  "key, all, or none (off)")
      ->type_name("key|all|off")
      ->transform(CLI::CheckedTransformer(sharing))
      ->default_str("key");
}

void add_time_options(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--request-timeout", options.request_seconds,
                  "gives an answer up that takes longer; 0: none")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  command
      .add_option("--keep-alive-seconds", options.keep_alive_seconds,
                  "how often a stream that waits says that it is alive")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
  command
      .add_option("--drain-seconds", options.drain_seconds,
                  "how long SIGTERM waits for running answers; a second signal does not wait")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
}

}  // namespace

void add_serve_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serves the OpenAI API over HTTP.");
  add_address_options(*command, *options);
  add_access_options(*command, *options);
  add_time_options(*command, *options);
  add_model_options(*command, options->model);
  add_kv_option(*command, options->model);
  add_kv_spill_options(*command, options->model);
  add_answer_options(*command, options->model);
  command->footer(
      examples({{"penstock serve model.gguf", "http://127.0.0.1:8080/v1, for this machine only"},
                {"penstock serve model.gguf --host 0.0.0.0 --port 80 --api-key-file keys.txt",
                 "for every machine that reaches this one and has a key"},
                {"penstock serve model.gguf --kv-spill /var/cache/penstock --kv-spill-gib 100",
                 "long prompts are not computed again, also after a restart"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
