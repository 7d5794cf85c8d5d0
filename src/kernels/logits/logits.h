// The passes over a whole vocabulary that choosing a token needs.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/isa.h"

namespace penstock {

// A row of logits is read in stripes of 512 numbers, the last one shorter; number i of a stripe is
// in its column i % 16.
inline constexpr size_t kStripe = 512;
inline constexpr size_t kColumns = 16;
constexpr size_t n_stripes(size_t n_logits) { return (n_logits + kStripe - 1) / kStripe; }

// maxima[kColumns s + c] = the largest number in column c of stripe s, -inf where it has none.
// False: a logit is NaN or +inf, and the maxima are undefined.
//   maxima [n_stripes(logits.size()), kColumns]
bool column_maxima(Isa isa, std::span<const float> logits, std::span<float> maxima);
bool column_maxima_ref(std::span<const float> logits, std::span<float> maxima);

// Below this lead exp is +0 (kernels/exp.h); leads are cut off here to stay finite.
inline constexpr float kLeastLead = -128.0F;

struct Softening {
  float largest = 0.0F;              // finite, at least every logit
  float inverse_temperature = 1.0F;  // above 0
};

struct WeightSums {
  float weight = 0.0F;         // sum_i w_i
  float weighted_lead = 0.0F;  // sum_i w_i x_i
};

// The weights of one stripe: softmax before its division.
//   x_i = max((z_i - largest) * inverse_temperature, kLeastLead); w_i = exp(x_i)
// Each operation is rounded to float32, but fma(w_i, x_i, sum) once; each sum has one addend per
// column, in the order of the numbers, then columns c and c + 8, c + 4, c + 2, c + 1 are added: the
// same bits on every isa.
//   logits, weights [1..kStripe]; no NaN, no +inf
WeightSums stripe_weights(Isa isa, Softening by, std::span<const float> logits,
                          std::span<float> weights);
WeightSums stripe_weights_ref(Softening by, std::span<const float> logits,
                              std::span<float> weights);

// The versions the above choose from.
bool column_maxima_avx2(std::span<const float> logits, std::span<float> maxima);
bool column_maxima_avx512(std::span<const float> logits, std::span<float> maxima);
WeightSums stripe_weights_avx2(Softening by, std::span<const float> logits,
                               std::span<float> weights);
WeightSums stripe_weights_avx512(Softening by, std::span<const float> logits,
                                 std::span<float> weights);

}  // namespace penstock
