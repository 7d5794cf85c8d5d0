#include "memory/kv_spill/kv_spill.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "os/thread_name.h"

namespace penstock {
namespace {

// Of pages that wait to be written: what a disk takes in a fraction of a second.
constexpr size_t kStagingBytes = 64 * kMiB;
constexpr size_t kFewestStaged = 4;
constexpr size_t kMostStaged = 256;

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

Result<std::unique_ptr<KvSpill>> KvSpill::open(SpillStoreOptions options, Log log) {
  const std::string folder = options.folder.string();
  PENSTOCK_ASSIGN(SpillStore store, SpillStore::open(std::move(options)));
  if (!store.note().empty()) log.warn("{}", store.note());
  log.info("KV pages spill to {}: {} of {} pages are there, {} of {}", folder,
           format_count(store.n_pages()), format_count(store.n_slots()),
           format_bytes(store.n_pages() * store.slot_bytes()),
           format_bytes(store.n_slots() * store.slot_bytes()));
  const size_t n_staged =
      std::clamp(kStagingBytes / store.slot_bytes(), kFewestStaged, kMostStaged);
  PENSTOCK_ASSIGN(auto staging,
                  AnonymousMemory::reserve(n_staged * store.slot_bytes(), OsPages::kHuge));
  std::unique_ptr<KvSpill> spill(new KvSpill(std::move(store), std::move(staging), std::move(log)));
  spill->thread_ = std::thread([raw = spill.get()] { raw->run(); });
  return spill;
}

KvSpill::KvSpill(SpillStore store, AnonymousMemory staging, Log log)
    : log_(std::move(log)),
      store_(std::move(store)),
      page_bytes_(store_.page_bytes()),
      slot_bytes_(store_.slot_bytes()),
      secret_(store_.secret()),
      staging_(std::move(staging)) {
  const std::vector<ChainKey> keys = store_.keys();
  there_.insert(keys.begin(), keys.end());
  counts_.n_pages = static_cast<int64_t>(keys.size());
  for (size_t end = staging_.bytes().size(); end > 0; end -= slot_bytes_) {
    free_slots_.push_back(staging_.bytes().subspan(end - slot_bytes_, slot_bytes_));
  }
}

KvSpill::~KvSpill() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  log_.info("KV pages: {} are spilled ({}); since the start {} were written, {} read, {} dropped",
            format_count(static_cast<uint64_t>(counts_.n_pages)),
            format_bytes(static_cast<uint64_t>(counts_.n_pages) * slot_bytes_),
            format_count(static_cast<uint64_t>(counts_.n_spilled)),
            format_count(static_cast<uint64_t>(counts_.n_restored)),
            format_count(static_cast<uint64_t>(counts_.n_dropped)));
}

bool KvSpill::has(const ChainKey& key) const {
  const std::scoped_lock lock(mutex_);
  return there_.contains(key);
}

bool KvSpill::has_room() const {
  const std::scoped_lock lock(mutex_);
  return is_writing_ && !free_slots_.empty();
}

bool KvSpill::takes_pages() const {
  const std::scoped_lock lock(mutex_);
  return is_writing_;
}

bool KvSpill::keep(const ChainPage& page) {
  PENSTOCK_CHECK(page.bytes.size() == page_bytes_, "a KV page of another size");
  std::unique_lock lock(mutex_);
  if (there_.contains(page.key)) {
    touched_.push_back(page.key);
    changed_.notify_one();
    return true;
  }
  if (!is_writing_ || free_slots_.empty()) {
    ++counts_.n_dropped;
    return false;
  }
  const std::span<std::byte> slot = free_slots_.back();
  free_slots_.pop_back();
  lock.unlock();
  std::memcpy(slot.data(), page.bytes.data(), page.bytes.size());
  lock.lock();
  there_.insert(page.key);
  given_.push_back({page.key, page.before, slot});
  changed_.notify_one();
  return true;
}

void KvSpill::restore(uint64_t id, std::vector<ChainKey> keys,
                      std::vector<std::span<std::byte>> memory) {
  PENSTOCK_CHECK(keys.size() == memory.size(), "as many KV pages as keys");
  const std::scoped_lock lock(mutex_);
  restoring_.push_back({id, std::move(keys), std::move(memory)});
  changed_.notify_one();
}

std::vector<KvTier::Restored> KvSpill::take_restored() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(restored_, {});
}

bool KvSpill::has_restored() const {
  const std::scoped_lock lock(mutex_);
  return !restored_.empty();
}

void KvSpill::forget_all() {
  const std::scoped_lock lock(mutex_);
  for (const Given& page : given_) free_slots_.push_back(page.slot);
  given_.clear();
  touched_.clear();
  there_.clear();
  forgets_ = true;
  changed_.notify_one();
}

void KvSpill::set_listener(std::function<void()> listener) {
  const std::scoped_lock lock(listener_mutex_);
  listener_ = std::move(listener);
}

KvTierCounts KvSpill::counts() const {
  const std::scoped_lock lock(mutex_);
  KvTierCounts counts = counts_;
  counts.bytes = static_cast<uint64_t>(counts.n_pages) * slot_bytes_;
  return counts;
}

void KvSpill::run() {
  name_this_thread("kv spill");
  while (work()) tell_listener();
  if (!is_writing_) return;  // which was said
  if (const auto closed = store_.close(); !closed) {
    log_.warn("when spilled KV pages were last used is not kept: {}", closed.error().text());
  }
}

bool KvSpill::work() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return stopping_ || forgets_ || !touched_.empty() || !restoring_.empty() || !given_.empty();
  });
  const bool forgets = std::exchange(forgets_, false);
  const std::vector<ChainKey> touched = std::exchange(touched_, {});
  std::optional<Restoring> restoring;
  if (!stopping_ && !restoring_.empty()) {
    restoring = std::move(restoring_.front());
    restoring_.pop_front();
  }
  const bool is_last = stopping_ && given_.empty();
  lock.unlock();

  if (forgets) clear();
  for (const ChainKey& key : touched) store_.touch(key);
  if (restoring) {
    write_given(restoring->keys);
    read(*restoring);
  } else if (const auto page = next_given(nullptr)) {
    write_one(*page);
  }
  return !is_last;
}

std::optional<KvSpill::Given> KvSpill::next_given(const std::vector<ChainKey>* wanted) {
  const auto is_wanted = [&](const Given& page) {
    return wanted == nullptr || std::ranges::find(*wanted, page.key) != wanted->end();
  };
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(given_, is_wanted);
  if (found == given_.end()) return std::nullopt;
  const Given page = *found;
  given_.erase(found);
  return page;
}

void KvSpill::write_given(const std::vector<ChainKey>& wanted) {
  while (const auto page = next_given(&wanted)) write_one(*page);
}

void KvSpill::write_one(const Given& page) {
  SpillStore::Put put;
  // Only this thread makes it false.
  if (is_writing_) put = store_.put(page.key, page.before, page.slot);
  if (put.error) {
    log_.warn("no more KV pages are spilled until the next start: {}", put.error->text());
  }
  note_put(page, put);
}

void KvSpill::note_put(const Given& page, const SpillStore::Put& put) {
  const std::scoped_lock lock(mutex_);
  free_slots_.push_back(page.slot);
  if (put.error) is_writing_ = false;
  if (put.evicted) there_.erase(*put.evicted);
  if (put.is_stored) {
    ++counts_.n_spilled;
    counts_.bytes_written += slot_bytes_;
  } else {
    there_.erase(page.key);
    ++counts_.n_dropped;
  }
  counts_.n_pages = static_cast<int64_t>(store_.n_pages());
}

void KvSpill::read(const Restoring& restoring) {
  const auto began = std::chrono::steady_clock::now();
  std::vector<SpillStore::Wanted> wanted;
  for (size_t i = 0; i < restoring.keys.size(); ++i) {
    wanted.push_back({restoring.keys[i], restoring.memory[i]});
  }
  const SpillStore::Got got = store_.get(wanted);
  if (got.lost && !std::exchange(has_warned_, true)) {
    log_.warn("a spilled KV page is computed again (later ones only count): {}", got.error->text());
  }
  const std::scoped_lock lock(mutex_);
  if (got.lost) {
    there_.erase(*got.lost);
    ++counts_.n_damaged;
  }
  counts_.n_pages = static_cast<int64_t>(store_.n_pages());
  counts_.n_restored += static_cast<int64_t>(got.n);
  counts_.bytes_read += got.n * slot_bytes_;
  counts_.read_seconds += seconds_since(began);
  restored_.push_back({restoring.id, got.n});
}

void KvSpill::clear() {
  const Result<void> cleared = store_.clear();
  const std::scoped_lock lock(mutex_);
  counts_.n_pages = static_cast<int64_t>(store_.n_pages());
  if (cleared) return;
  is_writing_ = false;
  log_.warn("no more KV pages are spilled until the next start: {}", cleared.error().text());
}

void KvSpill::tell_listener() {
  const std::scoped_lock lock(listener_mutex_);
  if (listener_) listener_();
}

}  // namespace penstock
