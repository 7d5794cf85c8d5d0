// Checks a pack's checksums while the model is already in use.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace penstock {

class PackVerifier {
 public:
  // Does nothing without a pack. on_damage: called at most once, on the verifier's thread, when a
  // checksum is wrong or cannot be read.
  PackVerifier(std::optional<Checkpoint> pack, std::function<void(const Error&)> on_damage);

 private:
  std::jthread thread_;  // its end stops what is not finished
};

}  // namespace penstock
