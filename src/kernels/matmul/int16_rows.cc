#include "kernels/matmul/int16_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/matmul/integer_kernels.h"

namespace penstock {
namespace {

size_t size(int64_t n) { return static_cast<size_t>(n); }

void quantise_group_ref(const float* x, int64_t n, const GroupCodes& to) {
  float max = 0.0F;
  bool finite = true;
  for (int64_t k = 0; k < n; ++k) {
    finite = finite && std::isfinite(x[k]);
    max = std::max(max, std::fabs(x[k]));
  }
  const float factor = max >= kLeastMagnitude ? kLargestCode / max : 0.0F;
  const float scale = finite ? max / kLargestCode : std::numeric_limits<float>::quiet_NaN();
  int sums[2] = {};
  for (int64_t k = 0; k < n; ++k) {
    const float code =
        finite ? std::nearbyint(std::min(std::max(x[k] * factor, -kLargestCode), kLargestCode))
               : 0.0F;
    const int whole = static_cast<int>(code);
    to.high[k] = static_cast<int8_t>((whole + 128) >> 8);
    to.low[k] = static_cast<int8_t>(whole);
    sums[k / 16] += whole;
  }
  *to.scale = scale;
  to.sums_16[0] = scale * static_cast<float>(sums[0]);
  to.sums_16[1] = scale * static_cast<float>(sums[1]);
  *to.sum_32 = scale * static_cast<float>(sums[0] + sums[1]);
}

}  // namespace

void Int16Rows::resize(int64_t n_rows, int64_t cols) {
  n_rows_ = n_rows;
  cols_ = cols;
  padded_ = round_up(cols, kInt16Span);
  high_.resize(size(n_rows * padded_));
  low_.resize(high_.size());
  scales_.resize(size(n_rows * padded_ / kInt16Group));
  sums_32_.resize(scales_.size());
  sums_16_.resize(2 * scales_.size());
}

void Int16Rows::quantise(Isa isa, Rows<const float> x, Range rows) {
  PENSTOCK_CHECK(x.cols == cols_ && rows.end <= n_rows_, "rows of another shape");
  const auto quantise_group = isa >= Isa::kAvx512 ? quantise_group_avx512
                              : isa >= Isa::kAvx2 ? quantise_group_avx2
                                                  : quantise_group_ref;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t k = 0; k < cols_; k += kInt16Group) {
      const int64_t group = (i * padded_ + k) / kInt16Group;
      const size_t at = size(i * padded_ + k);
      const GroupCodes to = {&high_[at], &low_[at], &scales_[size(group)], &sums_32_[size(group)],
                             &sums_16_[size(2 * group)]};
      const int64_t n = std::min(kInt16Group, cols_ - k);
      quantise_group(x.row(i) + k, n, to);
    }
    pad(i);
  }
}

void Int16Rows::pad(int64_t i) {
  const int64_t end = (i + 1) * padded_ / kInt16Group;
  const int64_t n_groups = (padded_ - round_up(cols_, kInt16Group)) / kInt16Group;
  std::fill_n(scales_.begin() + end - n_groups, n_groups, 0.0F);
  std::fill_n(sums_32_.begin() + end - n_groups, n_groups, 0.0F);
  std::fill_n(sums_16_.begin() + 2 * (end - n_groups), 2 * n_groups, 0.0F);
}

Int16Row Int16Rows::row(int64_t i) const {
  const int64_t groups = padded_ / kInt16Group;
  return {&high_[size(i * padded_)], &low_[size(i * padded_)], &scales_[size(i * groups)],
          &sums_32_[size(i * groups)], &sums_16_[size(2 * i * groups)]};
}

}  // namespace penstock
