#include "engine/sampling/cuts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace penstock {
namespace {

bool takes_top_k(const SamplingOptions& options, size_t n_tokens) {
  return options.top_k > 0 && static_cast<size_t>(options.top_k) < n_tokens;
}

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double weight_of(std::span<const Candidate> candidates) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += double{candidate.weight};
  return sum;
}

double mean_lead_of(std::span<const Candidate> candidates, const Softmax& softmax) {
  double sum = 0.0;
  for (const Candidate& c : candidates) sum += double{c.weight} * softmax.lead(c.logit);
  return sum / weight_of(candidates);
}

// Leaves the fewest of the nearest, by `distance` (0 or more; of equals the lower id), that weigh
// `wanted` or more together; all of them when roundings keep them from it. A nucleus may hold most
// of a vocabulary, so candidates are counted into buckets of distance, and only the bucket that
// holds the last one is sorted.
template <class Distance>
void keep_weight(std::vector<Candidate>& candidates, double wanted, Distance distance) {
  constexpr size_t kBuckets = 1024;
  double most = 0.0;
  for (const Candidate& c : candidates) most = std::max(most, distance(c));
  const double scale = most > 0.0 ? kBuckets / most : 0.0;
  const auto bucket_of = [&](const Candidate& c) {
    return std::min(kBuckets - 1, static_cast<size_t>(distance(c) * scale));
  };
  std::array<double, kBuckets> weights = {};
  for (const Candidate& c : candidates) weights[bucket_of(c)] += double{c.weight};
  size_t last = 0;
  double held = 0.0;
  // The farthest is in the last bucket, so one that is not empty is found.
  while (last + 1 < kBuckets && (weights[last] == 0.0 || held + weights[last] < wanted)) {
    held += weights[last++];
  }

  const auto within =
      std::ranges::partition(candidates, [&](const Candidate& c) { return bucket_of(c) < last; });
  const auto beyond =
      std::ranges::partition(within, [&](const Candidate& c) { return bucket_of(c) == last; });
  std::ranges::sort(within.begin(), beyond.begin(), [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a);
    const double db = distance(b);
    return da != db ? da < db : a.id < b.id;
  });
  auto end = within.begin();
  while (end != beyond.begin()) {
    held += double{(end++)->weight};
    if (held >= wanted) break;
  }
  candidates.erase(end, candidates.end());
}

// Tokens with less of a lead than this cannot survive: it bounds how many are looked at.
double least_lead(const SamplingOptions& options, size_t n_tokens, const Softmax::Sums& sums) {
  // All tokens lighter than this weigh less than 1 - p of the whole, so the rest is more than p.
  const auto lead_of_rest = [&](double p) {
    return std::log((1.0 - p) * sums.weight / static_cast<double>(n_tokens));
  };
  if (options.top_p < 1.0) {
    return std::max(lead_of_rest(options.top_p), std::log(options.min_p));  // log 0 is -inf
  }
  // Those above lead_of_rest suffice for typical_p, so no token is kept that is farther from the
  // mean than all of these: the farthest has either this lead or a lead of 0.
  return std::min(lead_of_rest(options.typical_p), 2.0 * sums.mean_lead);
}

}  // namespace

bool cuts(const SamplingOptions& options, size_t n_tokens) {
  return takes_top_k(options, n_tokens) || options.top_p < 1.0 || options.min_p > 0.0 ||
         options.typical_p < 1.0;
}

std::vector<Candidate> cut(const SamplingOptions& options, const LogitRow& row,
                           const Softmax& softmax) {
  constexpr double kNoWeight = -88.0;  // kernels/exp.h: a lead below this weighs nothing
  const size_t n_tokens = row.logits().size();
  std::optional<Softmax::Sums> whole;  // of all tokens, as long as none has been cut
  std::vector<Candidate> kept;
  if (takes_top_k(options, n_tokens)) {
    const auto k = static_cast<size_t>(options.top_k);
    kept = softmax.candidates_from(std::max(row.reached_by(k), softmax.logit_below(kNoWeight)));
    if (kept.size() > k) {
      std::ranges::nth_element(kept, kept.begin() + static_cast<ptrdiff_t>(k), likelier);
      kept.resize(k);
    }
  } else if (options.top_p >= 1.0 && options.min_p > 0.0) {
    kept =
        softmax.candidates_from(softmax.logit_below(std::max(std::log(options.min_p), kNoWeight)));
  } else {
    whole = softmax.add_up();
    kept = softmax.candidates_from(
        softmax.logit_below(std::max(least_lead(options, n_tokens, *whole), kNoWeight)));
  }
  if (options.top_p < 1.0) {
    keep_weight(kept, options.top_p * (whole ? whole->weight : weight_of(kept)),
                [&](const Candidate& c) { return -softmax.lead(c.logit); });
    whole.reset();
  }
  if (options.min_p > 0.0) {  // the most likely token weighs exp(0)
    std::erase_if(kept, [&](const Candidate& c) { return double{c.weight} < options.min_p; });
    whole.reset();
  }
  if (options.typical_p < 1.0) {
    // With x the leads and S the sum of weights: -log p = log S - x, and H = log S - mean x.
    const double mean = whole ? whole->mean_lead : mean_lead_of(kept, softmax);
    keep_weight(kept, options.typical_p * (whole ? whole->weight : weight_of(kept)),
                [&](const Candidate& c) { return std::abs(softmax.lead(c.logit) - mean); });
  }
  return kept;
}

int32_t draw(std::span<const Candidate> candidates, double position) {
  double left = position * weight_of(candidates);
  for (const Candidate& candidate : candidates) {
    left -= double{candidate.weight};
    if (left < 0.0) return candidate.id;
  }
  return candidates.back().id;  // the roundings of the two sums may differ
}

}  // namespace penstock
