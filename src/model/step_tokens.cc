#include "model/step_tokens.h"

namespace penstock {

StepTokens::StepTokens(const Compute& compute, const ModelSpec& spec,
                       std::span<const SequenceSlice> batch)
    : slices_(batch), half_(static_cast<size_t>(spec.rope.rotary_dims / 2)) {
  std::vector<RopeTable> tables;
  for (size_t s = 0; s < batch.size(); ++s) {
    first_rows_.push_back(n_tokens());
    tables.push_back(rope_table(spec.rope, spec.context_length, batch[s].planned_length));
    for (size_t i = 0; i < batch[s].tokens.size(); ++i) {
      places_.push_back({s, batch[s].position + static_cast<int64_t>(i)});
    }
  }
  cos_.resize(places_.size() * half_);
  sin_.resize(places_.size() * half_);
  for_each_row(compute, n_tokens(), [&](Range range) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const Place& place = places_[index(row)];
      rope_angles(tables[place.slice], place.position,
                  std::span(cos_).subspan(index(row) * half_, half_),
                  std::span(sin_).subspan(index(row) * half_, half_));
    }
  });
}

}  // namespace penstock
