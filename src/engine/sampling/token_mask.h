// Which tokens may come next, where the text has to follow rules: what structured output plugs in.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace penstock {

// One request's rules. One thread: the engine's.
class TokenMask {
 public:
  virtual ~TokenMask() = default;

  // A set of token ids: those that may come after the tokens accepted so far. Valid until the next
  // call. An error ends the request.
  virtual Result<std::span<const uint64_t>> allowed() = 0;
  // `id` was chosen, out of those allowed.
  virtual Result<void> accept(int32_t id) = 0;
};

// Sets of token ids are bits: id is in where bit id % 64 of word id / 64 is set. Ids beyond the
// last word are not.
bool contains(std::span<const uint64_t> ids, int32_t id);
// logits[id] = -inf for every id that is not in.
void ban_others(std::span<const uint64_t> ids, std::span<float> logits);

}  // namespace penstock
