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
  to.sums_16[kInt16RowGroup] = scale * static_cast<float>(sums[1]);
  *to.sum_32 = scale * static_cast<float>(sums[0] + sums[1]);
}

}  // namespace

void Int16Rows::resize(int64_t n_rows, int64_t cols) {
  n_rows_ = n_rows;
  cols_ = cols;
  padded_ = round_up(cols, kInt16Span);
  codes_.resize(size(2 * round_up(n_rows, kInt16RowGroup) * padded_));
  scales_.resize(size(round_up(n_rows, kInt16RowGroup) * padded_ / kInt16Group));
  sums_32_.resize(scales_.size());
  sums_16_.resize(2 * scales_.size());
}

int64_t Int16Rows::first_scale(int64_t i) const {
  return i / kInt16RowGroup * kInt16RowGroup * (padded_ / kInt16Group) + i % kInt16RowGroup;
}

int64_t Int16Rows::first_half_sum(int64_t i) const {
  return 2 * first_scale(i) - i % kInt16RowGroup;
}

void Int16Rows::quantise(Isa isa, Rows<const float> x, Range rows) {
  PENSTOCK_CHECK(x.cols == cols_ && rows.end <= n_rows_, "rows of another shape");
  const auto quantise_group = isa >= Isa::kAvx512 ? quantise_group_avx512
                              : isa >= Isa::kAvx2 ? quantise_group_avx2
                                                  : quantise_group_ref;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    int8_t* const high = &codes_[size(2 * i * padded_)];
    const auto codes_from = [&](int64_t k) -> GroupCodes {
      const int64_t group = k / kInt16Group * kInt16RowGroup;
      return {high + k, high + padded_ + k, &scales_[size(first_scale(i) + group)],
              &sums_32_[size(first_scale(i) + group)],
              &sums_16_[size(first_half_sum(i) + 2 * group)]};
    };
    int64_t k = 0;
    if (isa >= Isa::kAvx512) {
      for (; k + kInt16Span <= cols_; k += kInt16Span) {
        quantise_span_avx512(x.row(i) + k, codes_from(k));
      }
    }
    for (; k < cols_; k += kInt16Group) {
      quantise_group(x.row(i) + k, std::min(kInt16Group, cols_ - k), codes_from(k));
    }
    pad(i);
  }
}

void Int16Rows::pad(int64_t i) {
  const int64_t n_groups = padded_ / kInt16Group;
  for (int64_t g = ceil_div(cols_, kInt16Group); g < n_groups; ++g) {
    scales_[size(first_scale(i) + g * kInt16RowGroup)] = 0.0F;
    sums_32_[size(first_scale(i) + g * kInt16RowGroup)] = 0.0F;
    sums_16_[size(first_half_sum(i) + 2 * g * kInt16RowGroup)] = 0.0F;
    sums_16_[size(first_half_sum(i) + (2 * g + 1) * kInt16RowGroup)] = 0.0F;
  }
}

Int16Row Int16Rows::row(int64_t i) const {
  const int8_t* const high = &codes_[size(2 * i * padded_)];
  return {high, high + padded_, &scales_[size(first_scale(i))], &sums_32_[size(first_scale(i))],
          &sums_16_[size(first_half_sum(i))]};
}

}  // namespace penstock
