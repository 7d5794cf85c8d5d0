#include "engine/answer/delta_collector.h"

#include <utility>

#include "engine/philox.h"

namespace penstock {

std::string CallIds::make(size_t index) const {
  constexpr std::string_view kCharacters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const auto words = philox4x32({static_cast<uint32_t>(index), 0, 0, 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  uint64_t bits = (static_cast<uint64_t>(words[0]) << 32) | words[1];
  std::string id(prefix);
  for (int i = 0; i < 9; ++i) {  // 62^9 < 2^64
    id += kCharacters[bits % kCharacters.size()];
    bits /= kCharacters.size();
  }
  return id;
}

void DeltaCollector::begin_call(std::string_view name) {
  delta_.calls.push_back({.index = n_calls_, .id = ids_.make(n_calls_), .name = std::string(name)});
  ++n_calls_;
  in_call_ = true;
}

void DeltaCollector::arguments(std::string_view json) {
  if (json.empty()) return;
  if (delta_.calls.empty()) delta_.calls.push_back({.index = n_calls_ - 1});
  delta_.calls.back().arguments += json;
}

AnswerDelta DeltaCollector::take() { return std::exchange(delta_, {}); }

}  // namespace penstock
