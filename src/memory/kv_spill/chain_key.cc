#include "memory/kv_spill/chain_key.h"

#include <xxhash.h>

#include <cstring>
#include <random>
#include <vector>

namespace penstock {
namespace {

ChainKey hash(const ChainSecret& secret, std::span<const std::byte> bytes) {
  static_assert(std::tuple_size_v<ChainSecret> >= XXH3_SECRET_SIZE_MIN);
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret.data(), secret.size());
  return {.low = hash.low64, .high = hash.high64};
}

}  // namespace

ChainSecret make_chain_secret() {
  std::random_device random;
  ChainSecret secret;
  for (size_t i = 0; i < secret.size(); i += sizeof(uint32_t)) {
    const uint32_t word = random();
    std::memcpy(&secret[i], &word, sizeof word);
  }
  return secret;
}

ChainKey root_key(const ChainSecret& secret, std::string_view scope) {
  return hash(secret, std::as_bytes(std::span(scope)));
}

ChainKey next_key(const ChainSecret& secret, const ChainKey& before,
                  std::span<const uint64_t> positions) {
  std::vector<uint64_t> words = {before.low, before.high};
  words.insert(words.end(), positions.begin(), positions.end());
  return hash(secret, std::as_bytes(std::span(words)));
}

}  // namespace penstock
