#include "kernels/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace penstock {
namespace {

std::vector<double> plain_frequencies(double theta, int rotary_dims) {
  std::vector<double> frequencies(static_cast<size_t>(rotary_dims) / 2);
  for (size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] = std::pow(theta, -2.0 * static_cast<double>(j) / rotary_dims);
  }
  return frequencies;
}

// Stretches the base so that the slowest pair covers the whole length; no change up to the context
// length.
double dynamic_theta(const RopeSpec& spec, int64_t context_length, int64_t length) {
  const double ratio =
      static_cast<double>(std::max(length, context_length)) / static_cast<double>(context_length);
  const double d = spec.rotary_dims;
  return spec.theta * std::pow(spec.factor * ratio - (spec.factor - 1.0), d / (d - 2.0));
}

// Long waves are interpolated, short ones kept, those between blended.
void scale_llama3(const RopeSpec& spec, double original, std::vector<double>& frequencies) {
  for (double& f : frequencies) {
    const double turns = original * f / (2.0 * std::numbers::pi);  // in the original context
    const double kept = std::clamp(
        (turns - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor), 0.0, 1.0);
    f *= (1.0 - kept) / spec.factor + kept;
  }
}

// The pair index (a fraction) that turns `turns` times in the original context.
double yarn_pair(const RopeSpec& spec, double original, double turns) {
  return spec.rotary_dims * std::log(original / (2.0 * std::numbers::pi * turns)) /
         (2.0 * std::log(spec.theta));
}

void scale_yarn(const RopeSpec& spec, double original, std::vector<double>& frequencies) {
  double low = yarn_pair(spec, original, spec.beta_fast);
  double high = yarn_pair(spec, original, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, spec.rotary_dims - 1.0);
  if (low == high) high += 0.001;  // the published rule against a division by zero
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    frequencies[j] *= ramp / spec.factor + (1.0 - ramp);
  }
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeSpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  if (spec.mscale == 0.0 || spec.mscale_all_dim == 0.0) return yarn_magnitude(spec.factor, 1.0);
  return yarn_magnitude(spec.factor, spec.mscale) /
         yarn_magnitude(spec.factor, spec.mscale_all_dim);
}

double longrope_attention_factor(const RopeSpec& spec, double original) {
  if (spec.attention_factor) return *spec.attention_factor;
  if (spec.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(spec.factor) / std::log(original));
}

template <class T>
void divide(std::vector<double>& frequencies, const std::vector<T>& divisors) {
  PENSTOCK_CHECK(divisors.size() == frequencies.size(), "a divisor for each pair");
  for (size_t j = 0; j < frequencies.size(); ++j) frequencies[j] /= divisors[j];
}

}  // namespace

RopeTable rope_table(const RopeSpec& spec, int64_t context_length, int64_t length) {
  const int64_t original_context =
      spec.original_context > 0 ? spec.original_context : context_length;
  const auto original = static_cast<double>(original_context);
  const double theta =
      spec.type == RopeType::kDynamic ? dynamic_theta(spec, context_length, length) : spec.theta;
  RopeTable table = {plain_frequencies(theta, spec.rotary_dims)};
  switch (spec.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic:
      break;
    case RopeType::kLinear:
      for (double& f : table.frequencies) f /= spec.factor;
      break;
    case RopeType::kLlama3:
      scale_llama3(spec, original, table.frequencies);
      break;
    case RopeType::kYarn:
      scale_yarn(spec, original, table.frequencies);
      table.attention_factor = yarn_attention_factor(spec);
      break;
    case RopeType::kLongrope:
      divide(table.frequencies, length > original_context ? spec.long_factor : spec.short_factor);
      table.attention_factor = longrope_attention_factor(spec, original);
      break;
  }
  if (!spec.freq_divisors.empty()) divide(table.frequencies, spec.freq_divisors);
  return table;
}

void rope_angles(const RopeTable& table, int64_t position, std::span<float> cos,
                 std::span<float> sin) {
  PENSTOCK_CHECK(cos.size() == table.frequencies.size() && sin.size() == cos.size(),
                 "a cos and a sin for each pair");
  for (size_t j = 0; j < cos.size(); ++j) {
    const double angle = static_cast<double>(position) * table.frequencies[j];
    cos[j] = static_cast<float>(std::cos(angle) * table.attention_factor);
    sin[j] = static_cast<float>(std::sin(angle) * table.attention_factor);
  }
}

void rope_rotate(RopePairs pairs, std::span<const float> cos, std::span<const float> sin,
                 Rows<float> heads) {
  const auto n_pairs = static_cast<int64_t>(cos.size());
  PENSTOCK_CHECK(sin.size() == cos.size() && 2 * n_pairs <= heads.cols,
                 "no more is rotated than a head has");
  // Pair j is elements first and first + apart.
  const int64_t step = pairs == RopePairs::kHalves ? 1 : 2;
  const int64_t apart = pairs == RopePairs::kHalves ? n_pairs : 1;
  for (int64_t h = 0; h < heads.n_rows; ++h) {
    for (int64_t j = 0; j < n_pairs; ++j) {
      float* const first = heads.row(h) + j * step;
      float* const second = first + apart;
      const float c = cos[static_cast<size_t>(j)];
      const float s = sin[static_cast<size_t>(j)];
      const float x1 = *first;
      const float x2 = *second;
      *first = x1 * c - x2 * s;
      *second = x2 * c + x1 * s;
    }
  }
}

}  // namespace penstock
