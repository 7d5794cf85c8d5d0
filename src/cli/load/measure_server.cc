#include "cli/load/measure_server.h"

#include <algorithm>
#include <utility>

#include "base/version.h"
#include "cli/input.h"
#include "cli/load/calibrate.h"
#include "cli/load/load_report.h"
#include "cli/progress.h"
#include "os/terminal.h"

namespace penstock {
namespace {

constexpr int64_t kRequestsPerClient = 8;
constexpr double kOpenSeconds = 30;
constexpr std::string_view kOutputTokens = "64";

std::vector<LoadShape> shapes_of(const LoadBenchOptions& options) {
  const bool is_bounded = options.n_requests || options.seconds;
  LoadShape common = {.n_requests = options.n_requests.value_or(0),
                      .seconds = options.seconds.value_or(0),
                      .seed = options.seed};
  std::vector<LoadShape> shapes;
  for (const double rate : options.rates) {
    LoadShape& shape = shapes.emplace_back(common);
    shape.rate = rate;
    if (!is_bounded) shape.seconds = kOpenSeconds;
  }
  if (!shapes.empty()) return shapes;
  const auto clients = options.concurrency.empty() ? std::vector{1} : options.concurrency;
  for (const int n : clients) {
    LoadShape& shape = shapes.emplace_back(common);
    shape.concurrency = n;
    if (!is_bounded) shape.n_requests = kRequestsPerClient * n;
  }
  return shapes;
}

// Gives each row its requests: words, or the dataset's from where the last row stopped.
class Content {
 public:
  static Result<Content> make(const LoadBenchOptions& options);

  bool needs_sizing() const { return dataset_.empty(); }
  void set_sizing(PromptSizing sizing) { words_.sizing = sizing; }

  LoadRequest request(int64_t i) const {
    if (dataset_.empty()) return words_.request(i);
    LoadRequest request = dataset_[static_cast<size_t>(n_used_ + i) % dataset_.size()];
    if (fixed_output_) {
      Random random = random_for(words_.seed, words_.row, static_cast<uint64_t>(i));
      request.max_tokens = words_.output_tokens.draw(random);
    }
    return request;
  }
  void end_row(int64_t n_requests) {
    ++words_.row;
    n_used_ += n_requests;
  }

 private:
  WordPrompts words_ = {};
  std::vector<LoadRequest> dataset_ = {};
  bool fixed_output_ = false;  // --output-tokens instead of the dataset's own
  int64_t n_used_ = 0;
};

Result<Content> Content::make(const LoadBenchOptions& options) {
  Content content;
  content.words_ = {.shared_part = options.shared_prefix, .seed = options.seed};
  PENSTOCK_ASSIGN(content.words_.prompt_tokens,
                  parse_lengths(options.prompt_tokens, "--prompt-tokens"));
  const std::string output = options.output_tokens.value_or(std::string(kOutputTokens));
  PENSTOCK_ASSIGN(content.words_.output_tokens, parse_lengths(output, "--output-tokens"));
  content.fixed_output_ = options.output_tokens.has_value();
  if (options.dataset.empty()) return content;
  PENSTOCK_ASSIGN(const std::string file, read_file(options.dataset));
  PENSTOCK_ASSIGN(content.dataset_, parse_dataset(file, options.dataset.string()));
  shuffle(content.dataset_, options.seed);
  return content;
}

// One answer that does not count goes before the rows in any case: the calibration's.
Result<void> prepare(Content& content, const LoadBenchOptions& options, LoadTarget& target) {
  BlockingClient client(target.connection);
  PENSTOCK_ASSIGN(target.model, choose_model(client, options.model));
  PENSTOCK_ASSIGN(const auto sizing, calibrate(client, target, options.seed));
  if (sizing) {
    content.set_sizing(*sizing);
  } else if (content.needs_sizing()) {
    fmt::print(
        stderr,
        "The server tells no token counts: prompts have one word for each token asked for.\n");
  }
  return {};
}

OrderedJson to_json(const LoadBenchOptions& options, const LoadTarget& target,
                    const std::vector<LoadRow>& rows) {
  const bool is_chat = target.route == LoadRoute::kChat;
  OrderedJson json = {{"server", target.connection.url.text},
                      {"model", target.model},
                      {"route", is_chat ? "chat" : "completions"},
                      {"client", {{"version", version()}, {"commit", commit()}}},
                      {"seed", options.seed},
                      {"ignore_eos", options.ignore_eos}};
  if (options.dataset.empty()) {
    json["prompt_tokens"] = options.prompt_tokens;
    json["shared_prefix"] = options.shared_prefix;
  } else {
    json["dataset"] = options.dataset.filename().string();
  }
  if (options.output_tokens || options.dataset.empty()) {
    json["output_tokens"] = options.output_tokens.value_or(std::string(kOutputTokens));
  }
  json["rows"] = OrderedJson::array();
  for (const LoadRow& row : rows) json["rows"].push_back(penstock::to_json(row));
  return json;
}

Result<void> check_failures(const std::vector<LoadRow>& rows) {
  int64_t n_requests = 0;
  int64_t n_failed = 0;
  for (const LoadRow& row : rows) {
    n_failed += row.n_failed();
    n_requests += row.n_answered + row.n_failed();
  }
  if (n_failed == 0) return {};
  return fail(ErrorKind::kIo, "{} of {} requests failed", n_failed, n_requests);
}

}  // namespace

Result<void> measure_server(const LoadBenchOptions& options) {
  PENSTOCK_ASSIGN(ClientOptions connection, client_options(options.server));
  PENSTOCK_ASSIGN(Content content, Content::make(options));
  LoadTarget target = {.connection = std::move(connection),
                       .route = options.route,
                       .ignore_eos = options.ignore_eos};
  PENSTOCK_TRY(prepare(content, options, target));

  std::vector<LoadRow> rows;
  ProgressDisplay progress("requests");
  for (const LoadShape& shape : shapes_of(options)) {
    const LoadResult result =
        run_load(shape, target, [&](int64_t i) { return content.request(i); }, progress.function());
    content.end_row(std::ssize(result.records));
    rows.push_back(summarize(shape, result));
  }
  progress.finish();
  fmt::print("{}", options.json ? to_json(options, target, rows).dump(2) + "\n"
                                : to_table(rows, terminal_columns(stdout)));
  std::fflush(stdout);
  for (const std::string& line : remarks(rows)) fmt::print(stderr, "{}\n", line);
  return check_failures(rows);
}

}  // namespace penstock
