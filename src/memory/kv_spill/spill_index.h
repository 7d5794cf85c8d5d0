// The spill store's file `index`: whose pages the file `pages` holds, and which is in which slot.
//
// A header of kHeaderBytes, then a record of kRecordBytes for each slot, in order, each with a
// checksum of its own: one that is damaged costs its page and no other. A record of zeros, or none
// (the file ends earlier), is a slot without a page. Numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "memory/kv_spill/chain_key.h"

namespace penstock {

// Its block of the disk is its own: whatever tears a record leaves the header whole.
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kRecordBytes = 64;

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using RecordBytes = std::array<std::byte, kRecordBytes>;

// Whose pages these are. Two that differ in any of it have nothing to say to each other.
struct SpillHeader {
  ChainKey identity = {};   // hash of all that a page's bytes depend on, beside its positions
  uint64_t page_bytes = 0;  // of a page; its slot has as many, rounded up to kDirectAlignment
  ChainSecret secret = {};

  bool operator==(const SpillHeader&) const = default;
};

// Of the text that says what made the pages: model, class, version.
ChainKey identity_key(std::string_view identity);

HeaderBytes encode(const SpillHeader& header);
// An error says what is wrong with it.
Result<SpillHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

struct SpillRecord {
  ChainKey key = {};
  ChainKey before = {};    // the page that it continues, or its scope's root
  uint64_t last_used = 0;  // later is more; never 0
  uint64_t page_xxh3 = 0;  // page_checksum() of its bytes

  bool operator==(const SpillRecord&) const = default;
};

// Of a page's bytes, as the page of that key: another page's bytes have another.
uint64_t page_checksum(const ChainKey& key, std::span<const std::byte> page);

RecordBytes encode(const SpillRecord& record, uint32_t slot, const ChainSecret& secret);
// Nothing where the record is damaged, or was written for another slot or with another secret.
std::optional<SpillRecord> decode_record(std::span<const std::byte, kRecordBytes> bytes,
                                         uint32_t slot, const ChainSecret& secret);
bool is_empty_record(std::span<const std::byte, kRecordBytes> bytes);

}  // namespace penstock
