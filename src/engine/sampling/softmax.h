// softmax(z / T) over one row of logits, a stripe at a time: a vocabulary's worth of weights is
// never written down.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/isa.h"
#include "engine/sampling/logit_row.h"
#include "kernels/logits/logits.h"

namespace penstock {

// A token that may be drawn.
struct Candidate {
  float logit = 0.0F;
  float weight = 0.0F;  // exp((z - z_max) / T), above 0; probabilities are shares of the weight
  int32_t id = 0;
};

class Softmax {
 public:
  // Borrows the row. The inverse of the temperature must be a finite float.
  Softmax(Isa isa, const LogitRow& row, double temperature);

  // (z - z_max) / T
  double lead(float logit) const;
  // A logit whose lead is surely below `lead`, though hardly: roundings are allowed for.
  float logit_below(double lead) const;

  struct Sums {
    double weight = 0.0;
    double mean_lead = 0.0;            // of the tokens, by their probabilities
    std::vector<double> stripes = {};  // the weight of each
  };
  Sums add_up() const;
  // The tokens that have a weight and a logit of `least` or more.
  std::vector<Candidate> candidates_from(float least) const;
  // position: [0, 1), a place among all weights laid end to end.
  int32_t draw(const Sums& sums, double position) const;

 private:
  std::span<const float> stripe(size_t s) const;

  Isa isa_;
  const LogitRow& row_;
  double temperature_;
  double inverse_temperature_;
  Softening by_;
};

}  // namespace penstock
