#include "model/batch.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {

int64_t logit_rows(const SequenceSlice& slice) {
  switch (slice.logits) {
    case LogitRows::kNone:
      return 0;
    case LogitRows::kLast:
      return 1;
    case LogitRows::kAll:
      return static_cast<int64_t>(slice.tokens.size());
  }
  return 0;
}

size_t n_whole_slices(std::span<const SequenceSlice> batch) {
  const auto is_partial = [](const SequenceSlice& slice) { return slice.layers.has_value(); };
  return static_cast<size_t>(std::ranges::find_if(batch, is_partial) - batch.begin());
}

namespace {

// What of the batch was said of layers.
void check_layers(std::span<const SequenceSlice> batch, int n_layers, int64_t hidden_dim) {
  const auto partial = batch.subspan(n_whole_slices(batch));
  if (partial.empty()) return;
  const LayerRange& first = *partial.front().layers;
  PENSTOCK_CHECK(0 <= first.begin && first.begin < first.end && first.end <= n_layers,
                 "layers that the model does not have");
  for (const SequenceSlice& slice : partial) {
    PENSTOCK_CHECK(slice.layers && slice.layers->begin == first.begin &&
                       slice.layers->end == first.end && slice.origin == TokenOrigin::kPrompt,
                   "slices of different layers in one step");
    PENSTOCK_CHECK(first.end == n_layers || slice.logits == LogitRows::kNone,
                   "logits in the middle of the model");
    PENSTOCK_CHECK(
        slice.layers->stream.size() == slice.tokens.size() * static_cast<size_t>(hidden_dim),
        "a residual stream of the wrong size");
  }
}

}  // namespace

Result<void> check_batch(const ModelSpec& spec, std::span<const SequenceSlice> batch,
                         size_t n_logits) {
  int64_t n_rows = 0;
  for (const SequenceSlice& slice : batch) {
    n_rows += logit_rows(slice);
    for (const int32_t token : slice.tokens) {
      if (token >= 0 && token < spec.vocab_size) continue;
      return fail(ErrorKind::kInvalidArgument, "token id {} is outside the vocabulary of {} tokens",
                  token, spec.vocab_size);
    }
    const int64_t end = slice.position + static_cast<int64_t>(slice.tokens.size());
    PENSTOCK_CHECK(static_cast<int64_t>(slice.pages.size()) * kPageTokens >= end,
                   "a slice without enough KV pages");
  }
  check_layers(batch, spec.n_layers(), spec.hidden_dim);
  PENSTOCK_CHECK(n_logits == static_cast<size_t>(n_rows * spec.vocab_size),
                 "logits of the wrong size");
  return {};
}

}  // namespace penstock
