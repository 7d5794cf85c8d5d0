#include "cli/sequence_runner.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {

Result<void> SequenceRunner::begin(int64_t planned_length) {
  const int64_t context =
      std::min(model_.spec().context_length, (model_.n_pages() - first_page_) * kPageTokens);
  if (planned_length > context) {
    return fail(ErrorKind::kInvalidData, "the sequence has {} tokens, the context has room for {}",
                planned_length, context);
  }
  length_ = 0;
  planned_length_ = planned_length;
  pages_.clear();
  for (int64_t page = 0; page * kPageTokens < planned_length; ++page) {
    pages_.push_back(PageId{static_cast<uint32_t>(first_page_ + page)});
  }
  return {};
}

void SequenceRunner::rewind(int64_t length) {
  PENSTOCK_CHECK(length >= 0 && length <= length_, "the sequence has fewer tokens");
  length_ = length;
}

Result<void> SequenceRunner::extend(std::span<const int32_t> tokens, TokenOrigin origin,
                                    LogitRows rows, const TakeLogits& take) {
  while (!tokens.empty()) {
    const size_t n = std::min(tokens.size(), static_cast<size_t>(chunk_));
    const bool is_last = n == tokens.size();
    const LogitRows wanted = rows == LogitRows::kLast && !is_last ? LogitRows::kNone : rows;
    const size_t n_rows = wanted == LogitRows::kAll ? n : wanted == LogitRows::kLast ? 1 : 0;
    logits_.resize(n_rows * static_cast<size_t>(model_.spec().vocab_size));
    const SequenceSlice slice = slice_of(tokens.first(n), origin, wanted);
    PENSTOCK_TRY(model_.step({&slice, 1}, logits_));
    grow(n);
    tokens = tokens.subspan(n);
    if (n_rows > 0) PENSTOCK_TRY(take(logits_));
  }
  return {};
}

SequenceSlice SequenceRunner::slice_of(std::span<const int32_t> tokens, TokenOrigin origin,
                                       LogitRows rows) const {
  PENSTOCK_CHECK(length_ + static_cast<int64_t>(tokens.size()) <= planned_length_,
                 "the sequence grows past its planned length");
  return {.tokens = tokens,
          .position = length_,
          .pages = pages_,
          .planned_length = planned_length_,
          .logits = rows,
          .origin = origin};
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace penstock
