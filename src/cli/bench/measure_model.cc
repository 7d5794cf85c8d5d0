#include "cli/bench/measure_model.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "cli/bench/breakdown.h"
#include "cli/bench/machine_json.h"
#include "cli/bench/routing_recorder.h"
#include "cli/input.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "engine/text_setup.h"
#include "kernels/bench/measurement.h"
#include "os/terminal.h"

namespace penstock {
namespace {

// One measured quantity: a number of tokens, and their rate in each repetition.
struct Row {
  std::string_view kind;
  int64_t n_tokens;   // of each sequence
  int64_t n_context;  // tokens that were there before
  int64_t batch;      // sequences
  std::vector<double> rates = {};
  Profile profile = {};                    // of as many other repetitions, where it is asked for
  std::vector<ExpertCounts> experts = {};  // of each repetition, where they stay on disk

  int64_t tokens_of_all() const { return batch * n_tokens; }
  bool has_profile() const { return profile.steps().n_calls > 0; }
};

constexpr int64_t kMostSequences = 1024;

// Spread over the vocabulary, so that a mixture's tokens visit many experts.
std::vector<int32_t> some_tokens(int64_t n, int64_t vocab_size) {
  constexpr int64_t kPrime = 1'000'003;
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(i * kPrime % vocab_size));
  return tokens;
}

// The first n of a text, as the model's tokenizer has them.
Result<std::vector<int32_t>> tokens_of_file(const Checkpoint& checkpoint,
                                            const std::filesystem::path& path, int64_t n) {
  PENSTOCK_ASSIGN(const std::string text, read_file(path));
  PENSTOCK_ASSIGN(const TextSetup setup, make_text_setup(checkpoint.tokenizer));
  PENSTOCK_ASSIGN(TextTokens tokens, tokens_of(*setup.tokenizer, text));
  std::vector<int32_t> all = std::move(tokens.prefix);
  all.insert(all.end(), tokens.ids.begin(), tokens.ids.end());
  if (std::ssize(all) < n) {
    return fail(ErrorKind::kInvalidArgument,
                "--text {} has {} tokens, fewer than the {} of --prefill or of --context and "
                "--decode",
                path.string(), all.size(), n);
  }
  all.resize(static_cast<size_t>(n));
  return all;
}

// As many as the longest run takes.
Result<std::vector<int32_t>> tokens_to_run(const Checkpoint& checkpoint,
                                           const ModelBenchOptions& options) {
  const int64_t n = options.runs.n_tokens();
  if (options.text.empty()) return some_tokens(n, checkpoint.spec.vocab_size);
  return tokens_of_file(checkpoint, options.text, n);
}

// The first run is not counted: it touches the weights for the first time. `observer` hears of that
// one alone.
Result<void> measure(ModelTimer& timer, const ModelBenchOptions& options,
                     Result<double> (ModelTimer::*run)(), RoutingObserver* observer, Row& row) {
  timer.set_routing_observer(observer);
  PENSTOCK_TRY((timer.*run)());
  timer.set_routing_observer(nullptr);
  for (int i = 0; i < options.repetitions; ++i) {
    const std::optional<ExpertCounts> before = timer.expert_counts();
    PENSTOCK_ASSIGN(const double taken, (timer.*run)());
    row.rates.push_back(static_cast<double>(row.tokens_of_all()) / taken);
    if (before) row.experts.push_back(timer.expert_counts()->since(*before));
    if (options.breakdown) {  // in turn, so that a busy machine disturbs both alike
      timer.set_profile(&row.profile);
      PENSTOCK_TRY((timer.*run)());
      timer.set_profile(nullptr);
    }
  }
  return {};
}

// What no step can exceed that reads all its weights from memory, in bytes a second.
struct ReadLimits {
  double weight_bytes = 0.0;
  double at_once = 0.0;     // read again right after they were read
  double after_rest = 0.0;  // after kRest, as experts lie that few tokens choose
};

constexpr std::chrono::seconds kRest{1};

// Nothing: the model does not read them. A virtual machine's host may take note of who reads which
// page, which makes the first reader of a page that rested pay for it.
std::optional<ReadLimits> read_limits(LanguageModel& model) {
  const std::optional<WeightsRead> first = model.read_weights();
  if (!first) return std::nullopt;
  const auto seconds = [&] { return model.read_weights().value_or(*first).seconds; };
  const double at_once = std::min(seconds(), seconds());
  std::this_thread::sleep_for(kRest);
  const auto bytes = static_cast<double>(first->bytes);
  return ReadLimits{bytes, bytes / at_once, bytes / seconds()};
}

// One token's share of what a row's repetitions had of experts on disk.
struct ExpertsOfToken {
  double hit_rate = 0.0;
  double prefetches = 0.0;       // experts that were read ahead
  double prefetches_used = 0.0;  // of them, those that were asked for
  double bytes_read = 0.0;
  double wait_seconds = 0.0;
};

ExpertsOfToken experts_of_token(const Row& row) {
  ExpertCounts sum;
  for (const ExpertCounts& counts : row.experts) {
    sum.n_hits += counts.n_hits;
    sum.n_misses += counts.n_misses;
    sum.n_prefetches += counts.n_prefetches;
    sum.n_prefetches_used += counts.n_prefetches_used;
    sum.bytes_read += counts.bytes_read;
    sum.wait_seconds += counts.wait_seconds;
  }
  const double n_tokens = static_cast<double>(row.tokens_of_all() * std::ssize(row.experts));
  const auto n_uses = static_cast<double>(sum.n_hits + sum.n_misses);
  return {.hit_rate = static_cast<double>(sum.n_hits) / std::max(n_uses, 1.0),
          .prefetches = static_cast<double>(sum.n_prefetches) / n_tokens,
          .prefetches_used = static_cast<double>(sum.n_prefetches_used) / n_tokens,
          .bytes_read = static_cast<double>(sum.bytes_read) / n_tokens,
          .wait_seconds = sum.wait_seconds / n_tokens};
}

std::string experts_text(const Row& row) {
  const ExpertsOfToken experts = experts_of_token(row);
  return fmt::format(
      "\n{}: {:.1f} % of the experts had a slot; a token read {:.2f} MB of others and waited "
      "{:.2f} ms for them; {:.1f} were read ahead, {:.1f} of these in vain\n",
      row.kind, 100.0 * experts.hit_rate, experts.bytes_read * 1e-6, experts.wait_seconds * 1e3,
      experts.prefetches, experts.prefetches - experts.prefetches_used);
}

Json to_json(const std::vector<Row>& rows, const LoadReport& report,
             const std::optional<ReadLimits>& limits) {
  Json list = Json::array();
  for (const Row& row : rows) {
    const Summary rates = summary(row.rates);
    list.push_back(
        {{"kind", row.kind},
         {"tokens", row.n_tokens},
         {"batch", row.batch},
         {"tok_s", {{"min", rates.least}, {"median", rates.median}, {"max", rates.most}}}});
    if (row.n_context > 1) list.back()["context"] = row.n_context;
    if (row.has_profile()) list.back()["breakdown"] = breakdown_json(row.profile);
    if (!row.experts.empty()) {
      const ExpertsOfToken experts = experts_of_token(row);
      list.back()["experts"] = {{"hit_rate", experts.hit_rate},
                                {"prefetches_token", experts.prefetches},
                                {"prefetches_used_token", experts.prefetches_used},
                                {"read_bytes_token", experts.bytes_read},
                                {"wait_s_token", experts.wait_seconds}};
    }
  }
  Json machine = machine_json();
  if (report.gpu.empty()) {
    machine["isa"] = to_string(report.isa);
    machine["precision"] = to_string(report.precision);
  } else {
    machine["gpu"] = report.gpu;
  }
  machine["threads"] = report.n_threads;
  Json all = {{"machine", machine}, {"rows", list}};
  if (const WeightLoading& loading = report.loading; loading.seconds > 0) {
    all["load"] = {{"seconds", loading.seconds},
                   {"cached_bytes", loading.counts.cached_bytes},
                   {"disk_bytes", loading.counts.disk_bytes}};
  }
  if (limits) {
    all["weights"] = {
        {"bytes", limits->weight_bytes},
        {"read_bytes_s", {{"at_once", limits->at_once}, {"after_rest", limits->after_rest}}}};
  }
  return all;
}

std::string to_table(const std::vector<Row>& rows, const std::optional<ReadLimits>& limits) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"kind"},
               {"tokens", kRight},
               {"batch", kRight},
               {"min tok/s", kRight},
               {"median tok/s", kRight},
               {"max tok/s", kRight}});
  const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
  for (const Row& row : rows) {
    const Summary rates = summary(row.rates);
    const std::string behind =
        row.n_context > 1 ? fmt::format(" behind {}", row.n_context) : std::string();
    table.add_row({std::string(row.kind) + behind, std::to_string(row.n_tokens),
                   std::to_string(row.batch), rate(rates.least), rate(rates.median),
                   rate(rates.most)});
  }
  const int columns = terminal_columns(stdout);
  std::string text = table.text(columns);
  for (const Row& row : rows) {
    if (!row.experts.empty()) text += experts_text(row);
  }
  for (const Row& row : rows) {
    if (row.has_profile()) text += '\n' + breakdown_table(row.kind, row.profile, columns);
  }
  if (!limits) return text;
  return text +
         fmt::format(
             "\nthe weights read from end to end, and nothing else: {:.2f} GB at {:.1f} GB/s, "
             "after a second's rest at {:.1f} GB/s\n",
             limits->weight_bytes * 1e-9, limits->at_once * 1e-9, limits->after_rest * 1e-9);
}

}  // namespace

void add_model_bench_options(CLI::App& command, ModelBenchOptions& options) {
  const auto add_count = [&](const char* name, auto& value, int lowest, const char* description) {
    command.add_option(name, value, description)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(lowest, 1 << 24));
  };
  ModelTimer::Runs& runs = options.runs;
  add_count("--prefill", runs.n_prefill, 0,
            "tokens of a prompt, from an empty context; 0: do not measure");
  add_count("--decode", runs.n_decode, 0, "tokens one by one, behind --context; 0: do not measure");
  command
      .add_option("--batch", runs.batch,
                  "sequences that decode at once, one token of each a step; tok/s counts all")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, kMostSequences));
  add_count("--context", runs.n_context, 1, "tokens that are there before decode begins");
  add_count("--repetitions", options.repetitions, 1,
            "measurements of each, after one that does not count");
  add_count("--chunk", runs.chunk, 1, "tokens in one prefill step");
  command
      .add_option("--text", options.text,
                  "run the tokens of this text; unless given, tokens spread over the vocabulary")
      ->type_name("FILE");
  command
      .add_option("--record-routing", options.record_routing,
                  "write which experts each step chose in each layer, for plan --replay: of the "
                  "runs that do not count")
      ->type_name("FILE");
  command.add_flag("--breakdown", options.breakdown,
                   "after each repetition another one, to tell where a step's time goes by "
                   "operation; and how fast the weights can be read");
  add_model_options(command, options.model);
}

Result<void> measure_model(ModelBenchOptions options) {
  PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(options.model.path));
  options.model.kv_tokens = options.runs.kv_tokens();
  std::optional<RoutingRecorder> recorder;
  if (!options.record_routing.empty()) {
    PENSTOCK_ASSIGN(recorder, RoutingRecorder::make(checkpoint, options.record_routing));
  }
  RoutingObserver* const observer = recorder ? &*recorder : nullptr;
  PENSTOCK_ASSIGN(std::vector<int32_t> tokens, tokens_to_run(checkpoint, options));
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const LoadedModel loaded, load(checkpoint, options.model, progress.function()));
  progress.finish();
  for (const std::string& line : describe(checkpoint, loaded.report)) {
    fmt::print(stderr, "{}\n", line);
  }

  if (!loaded.report.gpu.empty() && (options.breakdown || observer != nullptr)) {
    return fail(ErrorKind::kUnsupported,
                "{} is not known of a GPU's steps yet; --gpu none measures the CPU's",
                options.breakdown ? "--breakdown" : "--record-routing");
  }
  const ModelTimer::Runs& runs = options.runs;
  ModelTimer timer(*loaded.model, runs, std::move(tokens));
  std::vector<Row> rows;
  if (runs.n_prefill > 0) {
    rows.push_back({.kind = "prefill", .n_tokens = runs.n_prefill, .n_context = 0, .batch = 1});
    PENSTOCK_TRY(measure(timer, options, &ModelTimer::prefill, observer, rows.back()));
  }
  if (runs.n_decode > 0) {
    rows.push_back({.kind = "decode",
                    .n_tokens = runs.n_decode,
                    .n_context = runs.n_context,
                    .batch = runs.batch});
    PENSTOCK_TRY(measure(timer, options, &ModelTimer::decode, observer, rows.back()));
  }
  std::optional<ReadLimits> limits;
  if (options.breakdown) limits = read_limits(*loaded.model);
  fmt::print("{}", options.json ? to_json(rows, loaded.report, limits).dump(2) + "\n"
                                : to_table(rows, limits));
  return recorder ? recorder->write() : Result<void>();
}

}  // namespace penstock
