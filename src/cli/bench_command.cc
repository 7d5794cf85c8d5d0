// penstock bench: how many tokens a second, prefill and decode apart; or how a server bears a load.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "base/version.h"
#include "cli/bench/kernels_command.h"
#include "cli/command.h"
#include "cli/load/measure_server.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/sequence_runner.h"
#include "cli/table.h"
#include "os/cpu_name.h"
#include "os/terminal.h"

namespace penstock {
namespace {

struct BenchOptions {
  ModelOptions model = {};
  int64_t n_prefill = 512;
  int64_t n_decode = 128;
  int64_t chunk = 512;
  int repetitions = 5;
  bool json = false;
  LoadBenchOptions load = {};  // with its URL instead of all above but json
};

// One measured quantity: a number of tokens, and their rate in each repetition, slowest first.
struct Row {
  std::string_view kind;
  int64_t n_tokens;
  std::vector<double> rates;

  double median() const {
    const size_t middle = rates.size() / 2;
    return rates.size() % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  }
};

// Spread over the vocabulary, so that a mixture's tokens visit many experts.
std::vector<int32_t> some_tokens(int64_t n, int64_t vocab_size) {
  constexpr int64_t kPrime = 1'000'003;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(i * kPrime % vocab_size));
  return tokens;
}

Result<double> seconds_of(const std::function<Result<void>()>& work) {
  const auto began = std::chrono::steady_clock::now();
  PENSTOCK_TRY(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

Result<void> nothing(std::span<const float>) { return {}; }

// n tokens from an empty context, in chunks.
Result<double> prefill_seconds(SequenceRunner& runner, int64_t n) {
  const auto tokens = some_tokens(n, runner.vocab_size());
  PENSTOCK_TRY(runner.begin(n));
  return seconds_of(
      [&] { return runner.extend(tokens, TokenOrigin::kPrompt, LogitRows::kLast, nothing); });
}

// n tokens one by one, after a first one that is not timed.
Result<double> decode_seconds(SequenceRunner& runner, int64_t n) {
  const auto tokens = some_tokens(n + 1, runner.vocab_size());
  PENSTOCK_TRY(runner.begin(n + 1));
  PENSTOCK_TRY(
      runner.extend(std::span(tokens).first(1), TokenOrigin::kPrompt, LogitRows::kLast, nothing));
  return seconds_of([&]() -> Result<void> {
    for (size_t i = 1; i < tokens.size(); ++i) {
      PENSTOCK_TRY(runner.extend(std::span(tokens).subspan(i, 1), TokenOrigin::kGenerated,
                                 LogitRows::kLast, nothing));
    }
    return {};
  });
}

// The first run is not counted: it touches the weights for the first time.
Result<Row> measure(std::string_view kind, int64_t n_tokens, int repetitions,
                    const std::function<Result<double>()>& seconds) {
  Row row = {.kind = kind, .n_tokens = n_tokens, .rates = {}};
  for (int i = 0; i <= repetitions; ++i) {
    PENSTOCK_ASSIGN(const double taken, seconds());
    if (i > 0) row.rates.push_back(static_cast<double>(n_tokens) / taken);
  }
  std::ranges::sort(row.rates);
  return row;
}

Json to_json(const std::vector<Row>& rows, const LoadReport& report) {
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back(
        {{"kind", row.kind},
         {"tokens", row.n_tokens},
         {"batch", 1},
         {"tok_s",
          {{"min", row.rates.front()}, {"median", row.median()}, {"max", row.rates.back()}}}});
  }
  const Json machine = {{"cpu", cpu_name()},
                        {"isa", to_string(report.isa)},
                        {"precision", to_string(report.precision)},
                        {"threads", report.n_threads},
                        {"version", version()},
                        {"commit", commit()}};
  return {{"machine", machine}, {"rows", list}};
}

std::string to_table(const std::vector<Row>& rows) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"kind"},
               {"tokens", kRight},
               {"batch", kRight},
               {"min tok/s", kRight},
               {"median tok/s", kRight},
               {"max tok/s", kRight}});
  const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
  for (const Row& row : rows) {
    table.add_row({std::string(row.kind), std::to_string(row.n_tokens), "1",
                   rate(row.rates.front()), rate(row.median()), rate(row.rates.back())});
  }
  return table.text(terminal_columns(stdout));
}

Result<void> run_model(BenchOptions options) {
  PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(options.model.path));
  options.model.kv_tokens = std::max(options.n_prefill, options.n_decode + 1);
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const LoadedModel loaded, load(checkpoint, options.model, progress.function()));
  progress.finish();
  for (const std::string& line : describe(checkpoint, loaded.report)) {
    fmt::print(stderr, "{}\n", line);
  }

  SequenceRunner runner(*loaded.model, options.chunk);
  std::vector<Row> rows;
  if (options.n_prefill > 0) {
    PENSTOCK_ASSIGN(rows.emplace_back(),
                    measure("prefill", options.n_prefill, options.repetitions,
                            [&] { return prefill_seconds(runner, options.n_prefill); }));
  }
  if (options.n_decode > 0) {
    PENSTOCK_ASSIGN(rows.emplace_back(),
                    measure("decode", options.n_decode, options.repetitions,
                            [&] { return decode_seconds(runner, options.n_decode); }));
  }
  fmt::print("{}", options.json ? to_json(rows, loaded.report).dump(2) + "\n" : to_table(rows));
  return {};
}

Result<void> run(BenchOptions options) {
  options.load.json = options.json;
  if (!options.load.server.url.empty()) return measure_server(options.load);
  if (options.model.path.empty()) {
    return fail(ErrorKind::kInvalidArgument, "MODEL or --url is required");
  }
  return run_model(std::move(options));
}

// What measures a model and what measures a server do not go together.
void keep_apart(CLI::App& command, CLI::Option& url) {
  instead_of_model(command, url);
  for (const char* name : {"--prefill", "--decode", "--repetitions", "--chunk"}) {
    url.excludes(command.get_option(name));
  }
  for (CLI::Option* option : command.get_options()) {
    if (option->get_group() == "Load") option->needs(&url);
  }
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measures tokens a second of a model, or of a server under load.");
  const auto add_count = [&](const char* name, auto& value, int lowest, const char* description) {
    command->add_option(name, value, description)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(lowest, 1 << 24));
  };
  add_count("--prefill", options->n_prefill, 0,
            "tokens of a prompt, from an empty context; 0: do not measure");
  add_count("--decode", options->n_decode, 0,
            "tokens one by one, from an empty context; 0: do not measure");
  add_count("--repetitions", options->repetitions, 1,
            "measurements of each, after one that does not count");
  add_count("--chunk", options->chunk, 1, "tokens in one prefill step");
  command->add_flag("--json", options->json, "JSON with the machine, for bench/results");
  add_model_options(*command, options->model);
  keep_apart(*command, *add_load_options(*command, options->load));
  command->footer(
      examples({{"penstock bench model.gguf", "a table of prefill 512 and decode 128"},
                {"penstock bench model.gguf --prefill 2048 --decode 0 --threads 1 --json",
                 "prefill on one core, for a script"},
                {"penstock bench --url http://127.0.0.1:8080 --concurrency 1,4,16",
                 "a server with 1, 4 and 16 clients, a row each"},
                {"penstock bench --url http://127.0.0.1:8080 --rate 2 --seconds 60 "
                 "--prompt-tokens lognormal:256,0.8 --output-tokens uniform:16-128",
                 "two requests a second at random moments, of many lengths"}}));
  const CLI::App* kernels = add_bench_kernels_command(*command, action);
  command->callback([=, &action] {
    if (!command->got_subcommand(kernels)) action = [options] { return run(*options); };
  });
}

}  // namespace penstock
