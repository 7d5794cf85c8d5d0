#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/version.h"
#include "engine/engine.h"

namespace penstock {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From a cached prefix on a fast machine to a long prompt on a slow one.
const Histogram::BucketBoundaries kFirstTokenSeconds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                        2.5,  5,     10,   25,  50,   100};
const Histogram::BucketBoundaries kNextTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                       0.1,   0.25,   0.5,   1,    2.5,   5};

std::string_view name_of(AnswerOutcome outcome) {
  switch (outcome) {
    case AnswerOutcome::kCompleted:
      return "completed";
    case AnswerOutcome::kRefused:
      return "refused";
    case AnswerOutcome::kDisconnected:
      return "disconnected";
    case AnswerOutcome::kCancelled:
      return "cancelled";
    case AnswerOutcome::kFailed:
      return "failed";
  }
  return "failed";
}

struct Sample {
  std::string_view label_value;
  double value;
};

MetricFamily family(MetricType type, std::string_view name, std::string_view help,
                    std::string_view label, const std::vector<Sample>& samples) {
  MetricFamily made{.name = fmt::format("penstock_{}", name),
                    .help = std::string(help),
                    .type = type,
                    .metric = {}};
  for (const Sample& sample : samples) {
    ClientMetric metric;
    if (!label.empty()) metric.label = {{std::string(label), std::string(sample.label_value)}};
    if (type == MetricType::Counter) metric.counter.value = sample.value;
    if (type == MetricType::Gauge) metric.gauge.value = sample.value;
    made.metric.push_back(std::move(metric));
  }
  return made;
}

MetricFamily gauge(std::string_view name, std::string_view help, double value) {
  return family(MetricType::Gauge, name, help, "", {{"", value}});
}

MetricFamily counter(std::string_view name, std::string_view help, double value) {
  return family(MetricType::Counter, name, help, "", {{"", value}});
}

double number(int64_t value) { return static_cast<double>(value); }

void append_load(const EngineStats& stats, std::vector<MetricFamily>& families) {
  families.push_back(
      gauge("requests_waiting", "Requests that no step has begun.", number(stats.n_waiting)));
  families.push_back(
      gauge("requests_running", "Requests that the engine steps.", number(stats.n_running)));
  const int64_t n_used = stats.n_pages - stats.n_free_pages - stats.n_cached_pages;
  families.push_back(family(MetricType::Gauge, "kv_pages",
                            "KV pages: in use, kept for prompts that begin alike, free.", "state",
                            {{"used", number(n_used)},
                             {"cached", number(stats.n_cached_pages)},
                             {"free", number(stats.n_free_pages)}}));
}

void append_work(const EngineStats& stats, std::vector<MetricFamily>& families) {
  const SchedulerCounts& counts = stats.counts;
  families.push_back(counter("steps_total", "Forward passes.", number(stats.n_steps)));
  families.push_back(family(MetricType::Counter, "step_seconds_total",
                            "What the engine's thread spends its time on.", "part",
                            {{"plan", stats.seconds.plan},
                             {"model", stats.seconds.model},
                             {"sample", stats.seconds.sample}}));
  families.push_back(counter("bookkeeping_cpu_seconds_total",
                             "Processor time of the engine's thread outside the model.",
                             stats.seconds.bookkeeping_cpu));
  families.push_back(counter("prompt_tokens_total", "Tokens of the prompts that were begun.",
                             number(counts.n_prompt_tokens)));
  families.push_back(counter("prefix_hit_tokens_total", "Of these, found in the prefix cache.",
                             number(counts.n_prefix_hit_tokens)));
  families.push_back(counter("prefill_tokens_total",
                             "Tokens of prompts computed, after a preemption again.",
                             number(counts.n_prefill_tokens)));
  families.push_back(counter("decode_tokens_total", "Tokens of answers computed, one a step.",
                             number(counts.n_decode_tokens)));
  families.push_back(counter("preemptions_total", "Requests that gave their pages to others.",
                             number(counts.n_preempted)));
}

void append_experts(const ExpertCounts& experts, std::vector<MetricFamily>& families) {
  families.push_back(family(MetricType::Counter, "expert_uses_total",
                            "Experts that layers asked for: in RAM already, or read for them.",
                            "from",
                            {{"ram", number(experts.n_hits)}, {"disk", number(experts.n_misses)}}));
  families.push_back(family(
      MetricType::Counter, "expert_prefetches_total",
      "Experts read before a layer asked for them: for those that were asked for, and in vain "
      "or not yet.",
      "used",
      {{"true", number(experts.n_prefetches_used)},
       {"false", number(experts.n_prefetches - experts.n_prefetches_used)}}));
  families.push_back(counter("expert_read_bytes_total", "Of experts, from disk.",
                             static_cast<double>(experts.bytes_read)));
  families.push_back(counter("expert_wait_seconds_total", "That steps waited for those reads.",
                             experts.wait_seconds));
}

void append_spill(const KvTierCounts& spill, std::vector<MetricFamily>& families) {
  families.push_back(gauge("kv_spill_pages", "KV pages on disk.", number(spill.n_pages)));
  families.push_back(
      gauge("kv_spill_bytes", "Of these, on disk.", static_cast<double>(spill.bytes)));
  families.push_back(family(MetricType::Counter, "kv_spill_pages_total",
                            "KV pages written to disk, read back, not taken for there was no "
                            "room, found damaged.",
                            "event",
                            {{"spilled", number(spill.n_spilled)},
                             {"restored", number(spill.n_restored)},
                             {"dropped", number(spill.n_dropped)},
                             {"damaged", number(spill.n_damaged)}}));
  families.push_back(family(MetricType::Counter, "kv_spill_bytes_total", "Of KV pages.",
                            "direction",
                            {{"written", static_cast<double>(spill.bytes_written)},
                             {"read", static_cast<double>(spill.bytes_read)}}));
  families.push_back(counter("kv_spill_read_seconds_total",
                             "That reading KV pages back took, while others went on.",
                             spill.read_seconds));
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& responses = prometheus::BuildCounter()
                                                           .Name("penstock_http_responses_total")
                                                           .Help("HTTP responses by status.")
                                                           .Register(registry);
  prometheus::Family<prometheus::Counter>& answers =
      prometheus::BuildCounter()
          .Name("penstock_requests_total")
          .Help("Requests for generated text by route and outcome.")
          .Register(registry);
  prometheus::Histogram& first_token = prometheus::BuildHistogram()
                                           .Name("penstock_time_to_first_token_seconds")
                                           .Help("From a request's arrival to its first token.")
                                           .Register(registry)
                                           .Add({}, kFirstTokenSeconds);
  prometheus::Histogram& next_token = prometheus::BuildHistogram()
                                          .Name("penstock_inter_token_seconds")
                                          .Help("Between two tokens of one choice.")
                                          .Register(registry)
                                          .Add({}, kNextTokenSeconds);
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count_response(unsigned status) {
  families_->responses.Add({{"status", std::to_string(status)}}).Increment();
}

void Metrics::count_answer(std::string_view route, AnswerOutcome outcome) {
  families_->answers
      .Add({{"route", std::string(route)}, {"outcome", std::string(name_of(outcome))}})
      .Increment();
}

void Metrics::observe_first_token(double seconds) { families_->first_token.Observe(seconds); }

void Metrics::observe_next_token(double seconds) { families_->next_token.Observe(seconds); }

std::string Metrics::text(const EngineStats* stats, size_t n_connections) const {
  std::vector<MetricFamily> families = families_->registry.Collect();
  families.push_back(
      family(MetricType::Gauge, "build_info", "Always 1.", "version", {{version(), 1.0}}));
  families.push_back(
      gauge("connections", "Open HTTP connections.", static_cast<double>(n_connections)));
  if (stats != nullptr) {
    append_load(*stats, families);
    append_work(*stats, families);
    if (stats->experts) append_experts(*stats->experts, families);
    if (stats->spill) append_spill(*stats->spill, families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace penstock
