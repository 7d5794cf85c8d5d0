#include "memory/kv_spill/spill_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/integers.h"
#include "base/units.h"

namespace penstock {
namespace {

// Of pages that are read together: enough to keep a disk busy.
constexpr size_t kWindowBytes = 32 * kMiB;
constexpr RecordBytes kNoRecord = {};

uint64_t record_offset(uint32_t slot) { return kHeaderBytes + uint64_t{slot} * kRecordBytes; }

}  // namespace

SpillStore::SpillStore(SpillStoreOptions options, FileLock lock)
    : folder_(std::move(options.folder)),
      open_file_(std::move(options.open_file)),
      slot_bytes_(round_up(options.page_bytes, kDirectAlignment)),
      n_slots_(options.max_bytes / slot_bytes_),
      lock_(std::move(lock)),
      header_{.identity = identity_key(options.identity), .page_bytes = options.page_bytes},
      reads_(std::move(options.reads)) {}

Result<SpillStore> SpillStore::open(SpillStoreOptions options) {
  PENSTOCK_CHECK(options.page_bytes > 0, "KV pages of no bytes");
  const size_t slot_bytes = round_up(options.page_bytes, kDirectAlignment);
  if (options.max_bytes < slot_bytes) {
    return fail(ErrorKind::kInvalidArgument, "a KV page takes {}, but {} may be spilled",
                format_bytes(slot_bytes), format_bytes(options.max_bytes));
  }
  if (options.max_bytes / slot_bytes > std::numeric_limits<uint32_t>::max()) {
    return fail(ErrorKind::kInvalidArgument, "{} of KV pages of {} are more than can be counted",
                format_bytes(options.max_bytes), format_bytes(slot_bytes));
  }
  PENSTOCK_TRY(make_private_folder(options.folder));
  PENSTOCK_ASSIGN(auto lock,
                  FileLock::try_acquire(options.folder / "index", FileLock::Mode::kCreate));
  if (!lock) {
    return fail(ErrorKind::kUnavailable, "another process keeps its KV pages in {}",
                options.folder.string());
  }
  SpillStore store(std::move(options), *std::move(lock));
  PENSTOCK_TRY(store.open_files());
  return store;
}

Result<void> SpillStore::open_files() {
  PENSTOCK_ASSIGN(index_, open_file_(folder_ / "index", WriteThrough::kPageCache));
  PENSTOCK_ASSIGN(pages_, open_file_(folder_ / "pages", WriteThrough::kDirect));
  PENSTOCK_TRY(read_index());
  // From now on the file has its size: no space is taken before pages are written.
  PENSTOCK_TRY(pages_->resize(uint64_t{n_slots_} * slot_bytes_));
  PENSTOCK_ASSIGN(DirectFile reads, DirectFile::open(folder_ / "pages"));
  page_reads_ = std::make_unique<DirectFile>(std::move(reads));
  if (!reads_) {
    PENSTOCK_ASSIGN(reads_, ReadQueue::make());
  }
  const size_t n_window = std::clamp(kWindowBytes / slot_bytes_, size_t{1}, n_slots_);
  PENSTOCK_ASSIGN(window_, AnonymousMemory::reserve(n_window * slot_bytes_, OsPages::kHuge));
  return {};
}

Result<void> SpillStore::read_index() {
  PENSTOCK_ASSIGN(const uint64_t index_bytes, index_->size());
  PENSTOCK_ASSIGN(const uint64_t pages_bytes, pages_->size());
  // Until another is read: with a secret of its own, no record of before is ever believed again.
  header_.secret = make_chain_secret();
  if (index_bytes == 0) return start_afresh();
  HeaderBytes bytes = {};
  Result<SpillHeader> found = fail(ErrorKind::kInvalidData, "its index is cut off");
  if (index_bytes >= kHeaderBytes) {
    PENSTOCK_TRY(index_->read(0, bytes));
    found = decode_header(bytes);
  }
  if (found && (found->identity != header_.identity || found->page_bytes != header_.page_bytes)) {
    found = fail(ErrorKind::kInvalidData,
                 "it was computed from another model, by another version of Penstock or in another "
                 "class of arithmetic");
  }
  if (!found) {
    note_ = fmt::format("what {} holds of KV pages is thrown away: {}", folder_.string(),
                        found.error().message);
    return start_afresh();
  }
  header_ = *found;
  return read_records(index_bytes, pages_bytes);
}

Result<void> SpillStore::read_records(uint64_t index_bytes, uint64_t pages_bytes) {
  const size_t n_records = std::min((index_bytes - kHeaderBytes) / kRecordBytes, n_slots_);
  std::vector<RecordBytes> records(n_records);
  PENSTOCK_TRY(index_->read(kHeaderBytes, std::as_writable_bytes(std::span(records))));
  size_t n_bad = 0;
  for (auto slot = static_cast<uint32_t>(n_slots_); slot-- > 0;) {
    const bool is_there = slot < n_records && !is_empty_record(records[slot]);
    const auto record =
        is_there ? decode_record(records[slot], slot, header_.secret) : std::nullopt;
    const bool is_whole = record && (uint64_t{slot} + 1) * slot_bytes_ <= pages_bytes &&
                          !entries_.contains(record->key);
    if (is_whole) {
      add(record->key, {record->before, record->last_used, record->page_xxh3, slot});
      clock_ = std::max(clock_, record->last_used);
      continue;
    }
    free_slots_.push_back(slot);
    n_bad += is_there ? 1 : 0;
  }
  if (n_bad > 0) {
    note_ = fmt::format("{} of {} KV pages in {} are thrown away: their records are damaged", n_bad,
                        n_bad + entries_.size(), folder_.string());
  }
  // What a smaller budget leaves no room for.
  if (index_bytes <= record_offset(static_cast<uint32_t>(n_slots_ - 1)) + kRecordBytes) return {};
  return index_->resize(record_offset(static_cast<uint32_t>(n_slots_ - 1)) + kRecordBytes);
}

Result<void> SpillStore::start_afresh() {
  entries_.clear();
  n_continued_by_.clear();
  leaves_.clear();
  free_slots_.clear();
  for (auto slot = static_cast<uint32_t>(n_slots_); slot-- > 0;) free_slots_.push_back(slot);
  // The records go before the header that would vouch for them is written again.
  PENSTOCK_TRY(index_->resize(0));
  PENSTOCK_TRY(pages_->resize(0));
  return index_->write(0, encode(header_));
}

std::vector<ChainKey> SpillStore::keys() const {
  std::vector<ChainKey> keys;
  keys.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  return keys;
}

SpillStore::Put SpillStore::put(const ChainKey& key, const ChainKey& before,
                                std::span<const std::byte> slot) {
  PENSTOCK_CHECK(slot.size() == slot_bytes_, "a slot of another size");
  if (has(key)) {
    touch(key);
    return {.is_stored = true};
  }
  Put done;
  if (free_slots_.empty()) {
    done.evicted = victim(before);
    if (!done.evicted) return done;
    remove(*done.evicted);
  }
  const uint32_t place = free_slots_.back();
  const SpillRecord record = {.key = key,
                              .before = before,
                              .last_used = ++clock_,
                              .page_xxh3 = page_checksum(key, slot.first(header_.page_bytes))};
  if (auto written = write_page(place, record, slot); !written) {
    done.error = std::move(written).error();
    return done;
  }
  free_slots_.pop_back();
  add(key, {record.before, record.last_used, record.page_xxh3, place});
  done.is_stored = true;
  return done;
}

Result<void> SpillStore::write_page(uint32_t slot, const SpillRecord& record,
                                    std::span<const std::byte> bytes) {
  PENSTOCK_TRY(write_record(slot, kNoRecord));
  PENSTOCK_TRY(pages_->write(uint64_t{slot} * slot_bytes_, bytes));
  return write_record(slot, encode(record, slot, header_.secret));
}

SpillStore::Got SpillStore::get(std::span<const Wanted> wanted) {
  Got got;
  const size_t n_window = window_.bytes().size() / slot_bytes_;
  while (got.n < wanted.size()) {
    const auto some = wanted.subspan(got.n, std::min(n_window, wanted.size() - got.n));
    if (auto done = get_some(some, got); !done) {
      got.error = std::move(done).error();
      break;
    }
  }
  return got;
}

Result<void> SpillStore::get_some(std::span<const Wanted> wanted, Got& got) {
  std::vector<ReadRequest> requests;
  for (const Wanted& page : wanted) {
    const auto found = entries_.find(page.key);
    if (found == entries_.end()) break;
    requests.push_back(
        {.file = page_reads_.get(),
         .offset = uint64_t{found->second.slot} * slot_bytes_,
         .out = window_.bytes().subspan(requests.size() * slot_bytes_, slot_bytes_)});
  }
  ReadBatch batch = reads_->submit(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const ChainKey& key = wanted[i].key;
    const auto page = requests[i].out.first(header_.page_bytes);
    Result<void> read = batch.wait_for(i);
    if (read && page_checksum(key, page) != entries_.at(key).page_xxh3) {
      read = fail(ErrorKind::kInvalidData, "a KV page in {} does not match its checksum",
                  folder_.string());
    }
    if (!read) {
      got.lost = key;
      const uint32_t slot = entries_.at(key).slot;
      remove(key);
      // If that fails too, the record goes before the slot is used again, or is found out again.
      (void)write_record(slot, kNoRecord);
      return read;
    }
    std::ranges::copy(page, wanted[i].out.begin());
    touch(key);
    ++got.n;
  }
  if (requests.size() < wanted.size()) {
    return fail(ErrorKind::kNotFound, "a KV page is not in {} any more", folder_.string());
  }
  return {};
}

void SpillStore::touch(const ChainKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const bool is_leaf = leaves_.erase({entry.last_used, key}) > 0;
  entry.last_used = ++clock_;
  entry.is_touched = true;
  if (is_leaf) leaves_.emplace(entry.last_used, key);
}

Result<void> SpillStore::clear() {
  PENSTOCK_TRY(start_afresh());
  return pages_->resize(uint64_t{n_slots_} * slot_bytes_);
}

Result<void> SpillStore::close() {
  for (auto& [key, entry] : entries_) {
    if (!std::exchange(entry.is_touched, false)) continue;
    const SpillRecord record = {key, entry.before, entry.last_used, entry.page_xxh3};
    PENSTOCK_TRY(write_record(entry.slot, encode(record, entry.slot, header_.secret)));
  }
  return {};
}

Result<void> SpillStore::write_record(uint32_t slot, std::span<const std::byte> record) {
  return index_->write(record_offset(slot), record);
}

std::optional<ChainKey> SpillStore::victim(const ChainKey& spared) const {
  const auto found =
      std::ranges::find_if(leaves_, [&](const auto& leaf) { return leaf.second != spared; });
  return found == leaves_.end() ? std::nullopt : std::optional(found->second);
}

void SpillStore::add(const ChainKey& key, const Entry& entry) {
  entries_.emplace(key, entry);
  if (!n_continued_by_.contains(key)) leaves_.emplace(entry.last_used, key);
  if (n_continued_by_[entry.before]++ > 0) return;
  const auto before = entries_.find(entry.before);
  if (before != entries_.end()) leaves_.erase({before->second.last_used, entry.before});
}

void SpillStore::remove(const ChainKey& key) {
  const auto found = entries_.find(key);
  const Entry entry = found->second;
  entries_.erase(found);
  leaves_.erase({entry.last_used, key});
  free_slots_.push_back(entry.slot);
  if (--n_continued_by_.at(entry.before) > 0) return;
  n_continued_by_.erase(entry.before);
  const auto before = entries_.find(entry.before);
  if (before != entries_.end()) leaves_.emplace(before->second.last_used, entry.before);
}

}  // namespace penstock
