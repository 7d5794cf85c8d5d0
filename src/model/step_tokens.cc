#include "model/step_tokens.h"

namespace penstock {

StepTokens::StepTokens(const Compute& compute, const ModelSpec& spec,
                       std::span<const SequenceSlice> batch)
    : slices_(batch),
      first_rows_(batch.size()),
      half_(static_cast<size_t>(spec.rope.rotary_dims / 2)) {
  for (const TokenOrigin origin : {TokenOrigin::kGenerated, TokenOrigin::kPrompt}) {
    for (size_t s = 0; s < batch.size(); ++s) {
      if (batch[s].origin == origin) place(s);
    }
    if (origin == TokenOrigin::kGenerated) n_generated_ = n_tokens();
  }
  std::vector<RopeTable> tables;
  for (const SequenceSlice& slice : batch) {
    tables.push_back(rope_table(spec.rope, spec.context_length, slice.planned_length));
  }
  cos_.resize(places_.size() * half_);
  sin_.resize(places_.size() * half_);
  for_each_row(compute, n_tokens(), static_cast<int64_t>(half_) * kSineCosine, [&](Range range) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const Place& place = places_[index(row)];
      rope_angles(tables[place.slice], place.position,
                  std::span(cos_).subspan(index(row) * half_, half_),
                  std::span(sin_).subspan(index(row) * half_, half_));
    }
  });
}

void StepTokens::place(size_t slice) {
  first_rows_[slice] = n_tokens();
  for (size_t i = 0; i < slices_[slice].tokens.size(); ++i) {
    places_.push_back({slice, slices_[slice].position + static_cast<int64_t>(i)});
  }
}

}  // namespace penstock
