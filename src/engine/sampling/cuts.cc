#include "engine/sampling/cuts.h"

#include <algorithm>
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

// Leaves the fewest of the first, by `before`, that weigh `wanted` or more together; all of them
// when roundings keep them from it. Sorts only the few among which the last of these is: a nucleus
// may hold most of a vocabulary.
template <class Before>
void keep_weight(std::vector<Candidate>& candidates, double wanted, Before before) {
  constexpr ptrdiff_t kFew = 64;
  const auto all = candidates.begin();
  // The last one that is kept is in [begin, end); those before `begin` weigh `held`.
  auto begin = all;
  auto end = candidates.end();
  double held = 0.0;
  while (end - begin > kFew) {
    const auto middle = begin + (end - begin) / 4;  // most often it is among the very first
    std::ranges::nth_element(begin, middle, end, before);
    const double more = weight_of({begin, middle});
    if (held + more >= wanted) {
      end = middle;
    } else {
      held += more;
      begin = middle;
    }
  }
  std::ranges::sort(begin, end, before);
  while (begin != end) {
    held += double{begin->weight};
    ++begin;
    if (held >= wanted) break;
  }
  candidates.erase(begin, candidates.end());
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
    keep_weight(kept, options.top_p * (whole ? whole->weight : weight_of(kept)), likelier);
    whole.reset();
  }
  if (options.min_p > 0.0) {  // the most likely token weighs exp(0)
    std::erase_if(kept, [&](const Candidate& c) { return double{c.weight} < options.min_p; });
    whole.reset();
  }
  if (options.typical_p < 1.0) {
    // With x the leads and S the sum of weights: -log p = log S - x, and H = log S - mean x.
    const double mean = whole ? whole->mean_lead : mean_lead_of(kept, softmax);
    const auto more_typical = [&](const Candidate& a, const Candidate& b) {
      const double da = std::abs(softmax.lead(a.logit) - mean);
      const double db = std::abs(softmax.lead(b.logit) - mean);
      return da != db ? da < db : a.id < b.id;
    };
    keep_weight(kept, options.typical_p * (whole ? whole->weight : weight_of(kept)), more_typical);
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
