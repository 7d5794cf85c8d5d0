#include "memory/kv_spill/spill_index.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'P', 'S', 'K', 'V', 'P', 'A', 'G', 'E'};
constexpr uint64_t kFormatVersion = 1;

// As they lie in the file, each followed by nothing that is not listed.
struct StoredHeader {
  std::array<char, 8> magic = kMagic;
  uint64_t version = kFormatVersion;
  ChainKey identity = {};
  uint64_t page_bytes = 0;
  ChainSecret secret = {};
  uint64_t checksum = 0;  // of all before it
};
static_assert(sizeof(StoredHeader) == 240 && sizeof(StoredHeader) <= kHeaderBytes);

struct StoredRecord {
  ChainKey key = {};
  ChainKey before = {};
  uint64_t last_used = 0;
  uint64_t page_xxh3 = 0;
  uint64_t slot = 0;
  uint64_t checksum = 0;  // of all before it, and of the header's secret
};
static_assert(sizeof(StoredRecord) == kRecordBytes);

uint64_t checksum_of(const StoredHeader& header) {
  return XXH3_64bits(&header, offsetof(StoredHeader, checksum));
}

uint64_t checksum_of(const StoredRecord& record, const ChainSecret& secret) {
  return XXH3_64bits_withSecret(&record, offsetof(StoredRecord, checksum), secret.data(),
                                secret.size());
}

}  // namespace

ChainKey identity_key(std::string_view identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return {.low = hash.low64, .high = hash.high64};
}

HeaderBytes encode(const SpillHeader& header) {
  StoredHeader stored = {
      .identity = header.identity, .page_bytes = header.page_bytes, .secret = header.secret};
  stored.checksum = checksum_of(stored);
  HeaderBytes bytes = {};
  std::memcpy(bytes.data(), &stored, sizeof stored);
  return bytes;
}

Result<SpillHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  StoredHeader stored;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  if (stored.magic != kMagic) {
    return fail(ErrorKind::kInvalidData, "its index is no index of KV pages");
  }
  if (stored.version != kFormatVersion) {
    return fail(ErrorKind::kInvalidData, "its index has format {}, expected {}", stored.version,
                kFormatVersion);
  }
  if (stored.checksum != checksum_of(stored)) {
    return fail(ErrorKind::kInvalidData, "its index is damaged: checksum {:016x}, expected {:016x}",
                stored.checksum, checksum_of(stored));
  }
  return SpillHeader{
      .identity = stored.identity, .page_bytes = stored.page_bytes, .secret = stored.secret};
}

uint64_t page_checksum(const ChainKey& key, std::span<const std::byte> page) {
  return XXH3_64bits_withSeed(page.data(), page.size(), key.low ^ key.high);
}

RecordBytes encode(const SpillRecord& record, uint32_t slot, const ChainSecret& secret) {
  StoredRecord stored = {.key = record.key,
                         .before = record.before,
                         .last_used = record.last_used,
                         .page_xxh3 = record.page_xxh3,
                         .slot = slot};
  stored.checksum = checksum_of(stored, secret);
  return std::bit_cast<RecordBytes>(stored);
}

std::optional<SpillRecord> decode_record(std::span<const std::byte, kRecordBytes> bytes,
                                         uint32_t slot, const ChainSecret& secret) {
  StoredRecord stored;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  if (stored.checksum != checksum_of(stored, secret) || stored.slot != slot ||
      stored.last_used == 0) {
    return std::nullopt;
  }
  return SpillRecord{.key = stored.key,
                     .before = stored.before,
                     .last_used = stored.last_used,
                     .page_xxh3 = stored.page_xxh3};
}

bool is_empty_record(std::span<const std::byte, kRecordBytes> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace penstock
