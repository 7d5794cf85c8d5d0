#include "kernels/router/router.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/exp.h"

namespace penstock {
namespace {

constexpr float kNever = -ExpConstants::kInfinity;

std::vector<float> softmax(std::span<const float> logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<float> scores(logits.size());
  double sum = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    scores[e] = exp_exact(logits[e] - max);
    sum += scores[e];
  }
  for (float& score : scores) score = static_cast<float>(score / sum);
  return scores;
}

std::vector<float> sigmoid(std::span<const float> logits) {
  std::vector<float> scores(logits.size());
  for (size_t e = 0; e < logits.size(); ++e) scores[e] = 1.0F / (1.0F + exp_exact(-logits[e]));
  return scores;
}

// What steers the choice; NaN becomes the lowest value.
std::vector<float> choice_scores(std::span<const float> scores, std::span<const float> bias) {
  std::vector<float> choice(scores.begin(), scores.end());
  for (size_t e = 0; e < choice.size(); ++e) {
    if (!bias.empty()) choice[e] += bias[e];
    if (std::isnan(choice[e])) choice[e] = kNever;
  }
  return choice;
}

float group_score(std::span<const float> group) {
  float first = kNever;
  float second = group.size() > 1 ? kNever : 0.0F;
  for (const float c : group) {
    second = std::max(second, std::min(first, c));
    first = std::max(first, c);
  }
  return first + second;
}

// The index of the highest value that is not yet taken; the lowest of equals.
size_t take_best(std::span<const float> values, std::vector<bool>& is_taken) {
  size_t best = values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_taken[i] && (best == values.size() || values[i] > values[best])) best = i;
  }
  is_taken[best] = true;
  return best;
}

// Lowers the experts of all but the best groups to -inf.
void keep_best_groups(const RouterSpec& spec, std::vector<float>& choice) {
  const auto n_groups = static_cast<size_t>(spec.n_groups);
  const size_t group_size = choice.size() / n_groups;
  std::vector<float> scores(n_groups);
  for (size_t g = 0; g < n_groups; ++g) {
    scores[g] = group_score(std::span(choice).subspan(g * group_size, group_size));
  }
  std::vector<bool> is_kept(n_groups, false);
  for (int i = 0; i < spec.top_groups; ++i) take_best(scores, is_kept);
  for (size_t e = 0; e < choice.size(); ++e) {
    if (!is_kept[e / group_size]) choice[e] = kNever;
  }
}

void weigh(const RouterSpec& spec, std::span<ExpertChoice> chosen) {
  double sum = spec.score == RouterScore::kSigmoid ? 1e-20 : 0.0;
  for (const ExpertChoice& choice : chosen) sum += choice.weight;
  const double factor = spec.renormalize ? spec.scale / sum : spec.scale;
  for (ExpertChoice& choice : chosen) choice.weight = static_cast<float>(choice.weight * factor);
}

}  // namespace

void route(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias,
           std::span<ExpertChoice> chosen) {
  PENSTOCK_CHECK(!logits.empty() && chosen.size() <= logits.size(),
                 "no more chosen than there are");
  PENSTOCK_CHECK(bias.empty() || bias.size() == logits.size(), "a bias for each expert");
  PENSTOCK_CHECK(spec.n_groups >= 1 && logits.size() % static_cast<size_t>(spec.n_groups) == 0,
                 "groups of one size");
  PENSTOCK_CHECK(spec.top_groups >= 1 && spec.top_groups <= spec.n_groups,
                 "no more groups kept than there are");

  const std::vector<float> scores =
      spec.score == RouterScore::kSoftmax ? softmax(logits) : sigmoid(logits);
  std::vector<float> choice = choice_scores(scores, bias);
  if (spec.n_groups > 1) keep_best_groups(spec, choice);

  std::vector<bool> is_taken(logits.size(), false);
  for (ExpertChoice& each : chosen) {
    const size_t expert = take_best(choice, is_taken);
    each = {static_cast<int32_t>(expert), scores[expert]};
  }
  weigh(spec, chosen);
}

}  // namespace penstock
