// One row of logits, read once, so that its best few are found without reading it all again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cpu/isa.h"

namespace penstock {

class LogitRow {
 public:
  // NaN or +inf, or no finite logit at all, is a kInternal error that names the token.
  // Borrows the logits, of which there is one at least, and which must stay as they are.
  static Result<LogitRow> read(Isa isa, std::span<const float> logits);

  std::span<const float> logits() const { return logits_; }
  float largest() const { return logits_[static_cast<size_t>(best_)]; }
  int32_t best() const { return best_; }  // the lowest id among the largest

  // A number that at least n logits reach, and that few others do while n is small beside the
  // vocabulary; -inf when n is so large that it would take reading them all.
  float reached_by(size_t n) const;
  // The ids whose logits are `least` or more, in the order of the columns.
  std::vector<int32_t> ids_from(float least) const;

 private:
  LogitRow(std::span<const float> logits, std::vector<float> maxima);

  std::span<const float> logits_;
  std::vector<float> maxima_;  // of each column: kernels/logits/logits.h
  int32_t best_ = 0;
};

}  // namespace penstock
