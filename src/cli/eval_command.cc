// penstock eval: what a model says about given tokens or a text: logits, greedy ids, perplexity.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/logits_file.h"
#include "cli/model_options.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "cli/sequence_runner.h"
#include "engine/text_setup.h"

namespace penstock {
namespace {

struct EvalOptions {
  ModelOptions model = {};
  int64_t chunk = 512;
  std::filesystem::path ids_path = {};
  std::filesystem::path logits_path = {};
  int64_t n_greedy = 0;
  std::filesystem::path text_path = {};
  WindowPlan windows = {};
  bool as_generated = false;
  std::optional<Precision> against = {};  // a class to measure the text in as well
};

using IdLists = std::vector<std::vector<int32_t>>;

// Refuses what no step could take, naming the list.
Result<IdLists> read_ids(const EvalOptions& options, const ModelSpec& spec) {
  const std::string source = options.ids_path.string();
  PENSTOCK_ASSIGN(const std::string text, read_file(options.ids_path));
  PENSTOCK_ASSIGN(IdLists lists, parse_id_lists(text, source));
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].empty()) return fail(ErrorKind::kInvalidData, "{}: list {} is empty", source, i);
    const int32_t highest = std::ranges::max(lists[i]);
    if (highest >= spec.vocab_size) {
      return fail(ErrorKind::kInvalidData,
                  "{}: list {} has token id {}, the model's vocabulary has {} tokens", source, i,
                  highest, spec.vocab_size);
    }
    const auto length = static_cast<int64_t>(lists[i].size()) + options.n_greedy;
    if (length > spec.context_length) {
      return fail(ErrorKind::kInvalidData,
                  "{}: list {} has {} tokens with those to generate, the model's context has {}",
                  source, i, length, spec.context_length);
    }
  }
  return lists;
}

// One list of ids: its logits into `file` if there is one, then the ids that follow greedily.
Result<std::vector<int32_t>> eval_list(SequenceRunner& runner, const std::vector<int32_t>& ids,
                                       int64_t n_greedy, std::optional<LogitsFile>& file,
                                       size_t vocab_size) {
  int32_t next = 0;
  const auto take = [&](std::span<const float> rows) -> Result<void> {
    next = most_likely(rows.last(vocab_size));
    return {};
  };
  const auto write_and_take = [&](std::span<const float> rows) -> Result<void> {
    PENSTOCK_TRY(file->write(rows));
    return take(rows);
  };
  PENSTOCK_TRY(runner.begin(static_cast<int64_t>(ids.size()) + n_greedy));
  if (file) {
    PENSTOCK_TRY(runner.extend(ids, TokenOrigin::kPrompt, LogitRows::kAll, write_and_take));
  } else {
    PENSTOCK_TRY(runner.extend(ids, TokenOrigin::kPrompt, LogitRows::kLast, take));
  }
  std::vector<int32_t> generated;
  while (static_cast<int64_t>(generated.size()) < n_greedy) {
    generated.push_back(next);
    if (static_cast<int64_t>(generated.size()) == n_greedy) break;
    PENSTOCK_TRY(
        runner.extend({&generated.back(), 1}, TokenOrigin::kGenerated, LogitRows::kLast, take));
  }
  return generated;
}

Result<void> eval_ids(EvalOptions options, const Checkpoint& checkpoint) {
  const ModelSpec& spec = checkpoint.spec;
  PENSTOCK_ASSIGN(const IdLists lists, read_ids(options, spec));
  std::vector<int64_t> rows;
  for (const auto& ids : lists) rows.push_back(static_cast<int64_t>(ids.size()));
  options.model.kv_tokens = rows.empty() ? 1 : std::ranges::max(rows) + options.n_greedy;
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const LoadedModel loaded, load(checkpoint, options.model, progress.function()));
  progress.finish();

  std::optional<LogitsFile> file;
  if (!options.logits_path.empty()) {
    PENSTOCK_ASSIGN(auto created, LogitsFile::create(options.logits_path, rows, spec.vocab_size));
    file.emplace(std::move(created));
  }
  SequenceRunner runner(*loaded.model, options.chunk);
  Json greedy = Json::array();
  for (const auto& ids : lists) {
    PENSTOCK_ASSIGN(auto generated, eval_list(runner, ids, options.n_greedy, file,
                                              static_cast<size_t>(spec.vocab_size)));
    greedy.push_back(std::move(generated));
  }
  if (file) PENSTOCK_TRY(file->close());
  if (options.n_greedy > 0) fmt::print("{}\n", greedy.dump());
  return {};
}

// In one class; the model is gone again when it returns.
Result<Perplexity> measure_text(EvalOptions options, const Checkpoint& checkpoint,
                                const TextTokens& tokens) {
  options.model.kv_tokens = longest_run(tokens, options.windows);
  ProgressDisplay progress;
  PENSTOCK_ASSIGN(const LoadedModel loaded, load(checkpoint, options.model, progress.function()));
  progress.finish();
  SequenceRunner runner(*loaded.model, options.chunk);
  return measure(runner, tokens, options.windows,
                 options.as_generated ? TokenOrigin::kGenerated : TokenOrigin::kPrompt);
}

void print(const Perplexity& found) {
  fmt::print("perplexity {:.4f} (mean negative log-likelihood {:.6f} over {} tokens)\n",
             found.perplexity(), found.mean_nll(), found.n_tokens);
}

Result<void> eval_text(EvalOptions options, const Checkpoint& checkpoint) {
  PENSTOCK_ASSIGN(const std::string text, read_file(options.text_path));
  PENSTOCK_ASSIGN(const TextSetup setup, make_text_setup(checkpoint.tokenizer));
  PENSTOCK_ASSIGN(const TextTokens tokens, tokens_of(*setup.tokenizer, text));
  PENSTOCK_TRY(check(options.windows, tokens, checkpoint.spec.context_length));
  PENSTOCK_ASSIGN(const Perplexity found, measure_text(options, checkpoint, tokens));
  print(found);
  if (!options.against) return {};

  // The classes to compare with are the CPU's, wherever the first was computed.
  options.model.precision = *options.against;
  options.model.gpu = "none";
  options.model.vram_budget_bytes.reset();
  PENSTOCK_ASSIGN(const Perplexity other, measure_text(options, checkpoint, tokens));
  fmt::print("{}: ", to_string(*options.against));
  print(other);
  fmt::print("perplexity {:+.3f} % of that, the same most likely token for {:.2f} %\n",
             100 * (found.perplexity() / other.perplexity() - 1),
             100 * top_1_agreement(found, other));
  return {};
}

Result<void> run(const EvalOptions& options) {
  if (options.ids_path.empty() == options.text_path.empty()) {
    return fail(ErrorKind::kInvalidArgument, "give one of --ids and --text");
  }
  if (!options.ids_path.empty() && options.logits_path.empty() && options.n_greedy == 0) {
    return fail(ErrorKind::kInvalidArgument, "--ids needs --logits, --greedy or both");
  }
  PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(options.model.path));
  return options.ids_path.empty() ? eval_text(options, checkpoint) : eval_ids(options, checkpoint);
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalOptions>();
  options->model.precision = Precision::kExact;  // its numbers are there to be compared
  CLI::App* command =
      app.add_subcommand("eval", "Writes logits, greedy token ids or the perplexity of a text.");
  add_model_options(*command, options->model);
  command
      ->add_option("--ids", options->ids_path,
                   "a JSON list of lists of token ids to run; needs no tokenizer")
      ->type_name("FILE.json");
  command
      ->add_option("--logits", options->logits_path,
                   "where to write the logits of every position: f32 tensors p0, p1, ... of "
                   "[tokens, vocabulary], one for each list")
      ->type_name("OUT.safetensors");
  command
      ->add_option("--greedy", options->n_greedy,
                   "print the N most likely next ids of each list, one after the other, as JSON; "
                   "an end-of-text id does not stop it")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  CLI::Option* text =
      command->add_option("--text", options->text_path, "print the perplexity of this text")
          ->type_name("FILE");
  command
      ->add_option("--window", options->windows.window,
                   "with --text: tokens that are run together; each window starts afresh, with "
                   "BOS in front where the tokenizer adds one")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40));
  command
      ->add_option(
          "--stride", options->windows.stride,
          "with --text: tokens from one window's start to the next; each token counts once, in "
          "the first window that has it")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_flag("--as-generated", options->as_generated,
                    "with --text: take the text as if it had been generated, which the class fast "
                    "computes otherwise than a prompt");
  add_precision_option(
      *command, "--against",
      "with --text: measure it in this arithmetic class as well, and say how far they agree",
      [options](Precision precision) { options->against = precision; })
      ->needs(text);
  command->add_option("--chunk", options->chunk, "tokens in one prefill step; changes no number")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->footer(examples(
      {{"penstock eval model.gguf --text book.txt", "the perplexity of a text"},
       {"penstock eval model.gguf --text book.txt --window 2048 --stride 1024",
        "the same, every token after at least 1024 others"},
       {"penstock eval model.gguf --text book.txt --cpu-precision fast --against exact",
        "what the faster arithmetic costs"},
       {"echo '[[1, 9690, 198]]' > ids.json; penstock eval model.gguf --ids ids.json --greedy 16",
        "what the model says after three tokens"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
