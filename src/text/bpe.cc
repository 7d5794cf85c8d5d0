#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "text/unicode.h"

namespace penstock {
namespace {

constexpr uint64_t kMix =
    0x9E3779B97F4A7C15u;  // 2^64 / golden ratio: spreads what differs in few bits
constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kLongPiece =
    32;  // symbols; above it a heap beats scanning all neighbours for each merge
constexpr size_t kCacheSlots = 16384;  // 1 MiB

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t n_merges) {
  if (n_merges == 0) return;
  const size_t capacity = std::bit_ceil(2 * n_merges + 1);
  entries_.resize(capacity);
  shift_ = 64 - std::countr_zero(capacity);
}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = (pair * kMix) >> shift_;
  while (entries_[slot].pair != pair && entries_[slot].pair != kEmpty)
    slot = (slot + 1) & (entries_.size() - 1);
  return slot;
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  PENSTOCK_CHECK(!entries_.empty(), "a merge table of no entries was given one");
  const uint64_t pair = pair_of(left, right);
  entries_[slot_of(pair)] = {pair, merge};
}

Merge MergeTable::find(int32_t left, int32_t right) const {
  if (entries_.empty()) return {};
  return entries_[slot_of(pair_of(left, right))].merge;
}

PieceCache::PieceCache() : slots_(kCacheSlots) {}

namespace {

// The piece padded with zeros, and where its slot is.
struct CacheKey {
  std::array<char, 32> bytes{};
  size_t slot = 0;

  explicit CacheKey(std::string_view piece) {
    std::memcpy(bytes.data(), piece.data(), piece.size());
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), bytes.data(), sizeof words);
    uint64_t hash = piece.size();
    for (const uint64_t word : words) hash = std::rotl((hash ^ word) * kMix, 29);
    slot = (hash * kMix) >> (64 - std::countr_zero(kCacheSlots));
  }
};

}  // namespace

std::span<const int32_t> PieceCache::find(std::string_view piece) const {
  if (piece.size() > kMaxBytes) return {};
  const CacheKey key(piece);
  const Slot& slot = slots_[key.slot];
  if (slot.n_bytes != piece.size() ||
      std::memcmp(slot.bytes.data(), key.bytes.data(), kMaxBytes) != 0)
    return {};
  return {slot.ids.data(), slot.n_ids};
}

void PieceCache::insert(std::string_view piece, std::span<const int32_t> ids) {
  if (piece.empty() || piece.size() > kMaxBytes || ids.empty() || ids.size() > kMaxIds) return;
  const CacheKey key(piece);
  Slot& slot = slots_[key.slot];
  std::memcpy(slot.bytes.data(), key.bytes.data(), kMaxBytes);
  slot.n_bytes = static_cast<uint8_t>(piece.size());
  slot.n_ids = static_cast<uint8_t>(ids.size());
  std::ranges::copy(ids, slot.ids.begin());
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (const auto known = scratch.cache.find(piece); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  scratch.ids.clear();
  const auto whole =
      model_.whole_pieces.empty() ? model_.whole_pieces.end() : model_.whole_pieces.find(piece);
  if (whole != model_.whole_pieces.end()) {
    scratch.ids.push_back(whole->second);
  } else {
    split_into_symbols(piece, scratch.ids);
    if (scratch.ids.size() <= kLongPiece) {
      merge_short(scratch);
    } else {
      merge_long(scratch);
    }
  }
  scratch.cache.insert(piece, scratch.ids);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void Bpe::split_into_symbols(std::string_view piece, std::vector<int32_t>& ids) const {
  bool after_unk = false;
  const auto add_unk = [&] {
    if (model_.unk && !(after_unk && model_.fuse_unk)) ids.push_back(*model_.unk);
    after_unk = true;
  };
  while (!piece.empty()) {
    if (model_.byte_level) {
      const int32_t id = model_.bytes[static_cast<uint8_t>(piece.front())];
      piece.remove_prefix(1);
      if (id < 0) {
        add_unk();
        continue;
      }
      ids.push_back(id);
      after_unk = false;
      continue;
    }
    std::string_view bytes = piece;
    const auto found = model_.characters.find(take_character(piece));
    bytes.remove_suffix(piece.size());
    if (found != model_.characters.end()) {
      ids.push_back(found->second);
      after_unk = false;
    } else if (model_.byte_fallback && std::ranges::all_of(bytes, [&](char b) {
                 return model_.bytes[static_cast<uint8_t>(b)] >= 0;
               })) {
      for (const char b : bytes) ids.push_back(model_.bytes[static_cast<uint8_t>(b)]);
      after_unk = false;
    } else {
      add_unk();
    }
  }
}

void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  if (ids.size() < 2) return;
  std::array<Merge, kLongPiece> merges;
  size_t n = ids.size();
  const auto merge_at = [&](size_t i) { return model_.merges.find(ids[i], ids[i + 1]); };
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = merge_at(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNone) break;
    ids[best] = merges[best].id;
    std::copy(ids.begin() + static_cast<ptrdiff_t>(best) + 2,
              ids.begin() + static_cast<ptrdiff_t>(n),
              ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + n - 1, merges.begin() + best);
    --n;
    if (best > 0) merges[best - 1] = merge_at(best - 1);
    if (best + 1 < n) merges[best] = merge_at(best);
  }
  ids.resize(n);
}

// The symbols are a linked list; a heap holds every merge that was once possible. An entry is out
// of date when its symbol is gone or now has another merge with its neighbour.
void Bpe::merge_long(BpeScratch& scratch) const {
  auto& [cache, ids, merges, next, previous, heap] = scratch;
  const auto n = static_cast<uint32_t>(ids.size());
  merges.assign(n, Merge{});
  next.resize(n);
  previous.resize(n);
  heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
  }
  const auto renew = [&](uint32_t i) {
    merges[i] = next[i] == kNone ? Merge{} : model_.merges.find(ids[i], ids[next[i]]);
    if (merges[i].rank != kNone) heap.push_back(uint64_t{merges[i].rank} << 32 | i);
    return merges[i].rank != kNone;
  };
  for (uint32_t i = 0; i < n; ++i) renew(i);
  std::ranges::make_heap(heap, std::greater{});

  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater{});
    const uint64_t entry = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(entry);
    if (merges[at].rank != entry >> 32) continue;
    const uint32_t gone = next[at];
    ids[at] = merges[at].id;
    ids[gone] = -1;
    merges[gone] = Merge{};
    next[at] = next[gone];
    if (next[at] != kNone) previous[next[at]] = at;
    if (renew(at)) std::ranges::push_heap(heap, std::greater{});
    if (previous[at] != kNone && renew(previous[at])) std::ranges::push_heap(heap, std::greater{});
  }
  std::erase(ids, -1);
}

}  // namespace penstock
