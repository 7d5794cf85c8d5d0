#include "engine/sampling/logit_row.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"
#include "kernels/logits/logits.h"

namespace penstock {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::unexpected<Error> name_fault(std::span<const float> logits) {
  const auto fault = std::ranges::find_if(logits, [](float z) { return !(z < kInfinity); });
  return fail(ErrorKind::kInternal, "the model's logit of token id {} is {}",
              fault - logits.begin(), *fault);
}

}  // namespace

Result<LogitRow> LogitRow::read(Isa isa, std::span<const float> logits) {
  PENSTOCK_CHECK(!logits.empty(), "a row of no logits");
  std::vector<float> maxima(n_stripes(logits.size()) * kColumns);
  if (!column_maxima(isa, logits, maxima)) return name_fault(logits);
  LogitRow row(logits, std::move(maxima));
  if (row.largest() == -kInfinity) {
    return fail(ErrorKind::kInternal, "the model's logits of all {} token ids are -inf",
                logits.size());
  }
  return row;
}

LogitRow::LogitRow(std::span<const float> logits, std::vector<float> maxima)
    : logits_(logits), maxima_(std::move(maxima)) {
  const auto best = std::ranges::max_element(maxima_);  // the first of equals: the first stripe
  const auto stripe = static_cast<size_t>(best - maxima_.begin()) / kColumns * kStripe;
  best_ = static_cast<int32_t>(
      std::ranges::find(logits_.begin() + static_cast<ptrdiff_t>(stripe), logits_.end(), *best) -
      logits_.begin());
}

// n columns whose maxima reach a number hold n logits that do.
float LogitRow::reached_by(size_t n) const {
  if (n > maxima_.size()) return -kInfinity;
  std::vector<float> order = maxima_;
  const auto nth = order.begin() + static_cast<ptrdiff_t>(n) - 1;
  std::ranges::nth_element(order, nth, std::greater());
  return *nth;
}

std::vector<int32_t> LogitRow::ids_from(float least) const {
  std::vector<int32_t> ids;
  for (size_t column = 0; column < maxima_.size(); ++column) {
    if (!(maxima_[column] >= least)) continue;
    const size_t begin = column / kColumns * kStripe;
    const size_t end = std::min(logits_.size(), begin + kStripe);
    for (size_t i = begin + column % kColumns; i < end; i += kColumns) {
      if (logits_[i] >= least) ids.push_back(static_cast<int32_t>(i));
    }
  }
  return ids;
}

}  // namespace penstock
