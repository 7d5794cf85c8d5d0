// Philox4x32-10: random numbers as a pure function of a key and a counter, from Salmon et al.,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kKeyStep0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kKeyStep1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  return counter;
}

// The `index`-th number of a stream chosen by `seed`, uniform in [0, 1): 53 bits.
constexpr double uniform(uint64_t seed, uint64_t index) {
  const auto bits =
      philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t all = (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
  return static_cast<double>(all >> 11) * 0x1p-53;
}

}  // namespace penstock
