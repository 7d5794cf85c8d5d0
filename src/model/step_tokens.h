// A step's tokens as rows: which sequence each belongs to, where it stands, and its rope angles.
// Generated tokens come first, whatever the order of the slices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rope/rope.h"
#include "model/compute.h"
#include "model/language_model.h"

namespace penstock {

class StepTokens {
 public:
  // Computes the rope angles of every token of the batch, each sequence's table by its planned
  // length.
  StepTokens(const Compute& compute, const ModelSpec& spec, std::span<const SequenceSlice> batch);

  int64_t n_tokens() const { return static_cast<int64_t>(places_.size()); }
  std::span<const SequenceSlice> slices() const { return slices_; }
  int64_t first_row(size_t slice) const { return first_rows_[slice]; }
  int64_t n_generated() const { return n_generated_; }  // rows [0, n_generated)

  const SequenceSlice& slice_of(int64_t row) const { return slices_[places_[index(row)].slice]; }
  int64_t position(int64_t row) const { return places_[index(row)].position; }
  std::span<const float> cos(int64_t row) const { return angles(cos_, row); }
  std::span<const float> sin(int64_t row) const { return angles(sin_, row); }

 private:
  void place(size_t slice);

  struct Place {
    size_t slice;
    int64_t position;
  };

  static size_t index(int64_t row) { return static_cast<size_t>(row); }
  std::span<const float> angles(const std::vector<float>& all, int64_t row) const {
    return std::span(all).subspan(index(row) * half_, half_);
  }

  std::span<const SequenceSlice> slices_;
  std::vector<int64_t> first_rows_;  // of each slice
  std::vector<Place> places_;        // of each row
  int64_t n_generated_ = 0;
  size_t half_ = 0;               // rotary_dims / 2
  std::vector<float> cos_, sin_;  // [n_tokens, half]
};

}  // namespace penstock
