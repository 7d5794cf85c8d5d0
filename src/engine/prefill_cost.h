// What a chunk of a prompt adds to a step for each layer that it crosses: something for there being
// one, and something for each token. Weights are unpacked once for any number of tokens, so a few
// take nearly as long as many.
#pragma once

#include <cstdint>

namespace penstock {

// Learns the two apart from chunks of different sizes that follow each other; between them the
// prompt, whose attention makes every chunk dearer, has hardly grown.
class PrefillCost {
 public:
  bool is_known() const { return last_tokens_ > 0; }
  // One step's, of a layer. Beyond the first, none counts as more than twice or less than half of
  // what was expected of it, for a step may have lost the processor.
  void add(int64_t n_tokens, double seconds);

  double seconds(int64_t n_tokens) const;
  // For the chunk itself, before any token.
  double fixed_seconds() const { return fixed_; }
  double token_seconds() const { return each_; }

 private:
  double fixed_ = 0, each_ = 0;
  bool has_slope_ = false;
  int64_t last_tokens_ = 0;
  double last_seconds_ = 0;
};

}  // namespace penstock
