// What every model asks of a step's batch before it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "model/language_model.h"

namespace penstock {

// Rows of logits that a slice asks for: the last of its tokens.
int64_t logit_rows(const SequenceSlice& slice);

// Slices that run all layers: they come first.
size_t n_whole_slices(std::span<const SequenceSlice> batch);

// An error where a token is outside the vocabulary. What only a mistake of ours can break (pages,
// layers, sizes) is checked.
Result<void> check_batch(const ModelSpec& spec, std::span<const SequenceSlice> batch,
                         size_t n_logits);

}  // namespace penstock
