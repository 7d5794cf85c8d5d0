// Byte-pair encoding of one piece of text: its symbols, then the best-ranked neighbours merged
// until none is left.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace penstock {

// What two neighbouring tokens become. Lower ranks merge first, equal ranks from the left.
struct Merge {
  uint32_t rank = UINT32_MAX;  // UINT32_MAX: the two do not merge
  int32_t id = -1;
};

// Merges by pair, in an open-addressing table that stays below half full.
class MergeTable {
 public:
  MergeTable() = default;
  explicit MergeTable(size_t n_merges);

  // The last of several merges of one pair counts. At most `n_merges` pairs.
  void insert(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Entry {
    uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no pair: ids are not negative
  size_t slot_of(uint64_t pair) const;

  std::vector<Entry> entries_;  // a power of two; empty: nothing merges
  int shift_ = 63;
};

// Lets a map keyed by strings be searched for a view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

// What a piece looks like before merging, and what may become of it.
struct BpeModel {
  bool byte_level = false;  // symbols are bytes; otherwise characters
  std::unordered_map<char32_t, int32_t>
      characters;                  // a character's token; characters without one fall back to bytes
  std::array<int32_t, 256> bytes;  // a byte's token, -1 without
  bool byte_fallback = false;      // all bytes of an unknown character have tokens and stand for it
  std::optional<int32_t> unk;  // stands for what has no token; without it such symbols are dropped
  bool fuse_unk = false;       // one unk for a run of them
  MergeTable merges;
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>
      whole_pieces;  // taken as they stand, before any merging

  BpeModel() { bytes.fill(-1); }
};

// The tokens of recent short pieces. Bounded: a new piece takes the place of an old one.
class PieceCache {
 public:
  PieceCache();
  // Nothing where the piece is not here.
  std::span<const int32_t> find(std::string_view piece) const;
  void insert(std::string_view piece, std::span<const int32_t> ids);

 private:
  static constexpr size_t kMaxBytes = 28;
  static constexpr size_t kMaxIds = 8;
  struct alignas(64) Slot {
    std::array<char, kMaxBytes> bytes{};  // zeros after the piece
    uint8_t n_bytes = 0;                  // 0: free
    uint8_t n_ids = 0;
    std::array<int32_t, kMaxIds> ids{};
  };
  std::vector<Slot> slots_;
};

// What one thread needs while it encodes.
struct BpeScratch {
  PieceCache cache;
  std::vector<int32_t> ids;   // the symbols of the piece
  std::vector<Merge> merges;  // of symbol i and the one after it
  std::vector<uint32_t> next, previous;
  std::vector<uint64_t> heap;  // rank << 32 | symbol
};

// Immutable and thread-safe, with a scratch for each thread.
class Bpe {
 public:
  Bpe() = default;
  explicit Bpe(BpeModel model) : model_(std::move(model)) {}

  // Appends the tokens of `piece`, valid UTF-8. Time is n log n in the piece's length.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void split_into_symbols(std::string_view piece, std::vector<int32_t>& ids) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  BpeModel model_;
};

}  // namespace penstock
