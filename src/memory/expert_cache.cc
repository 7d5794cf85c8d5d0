#include "memory/expert_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "memory/forecast_policy.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

ExpertCounts ExpertCounts::since(const ExpertCounts& earlier) const {
  return {.n_hits = n_hits - earlier.n_hits,
          .n_misses = n_misses - earlier.n_misses,
          .n_prefetches = n_prefetches - earlier.n_prefetches,
          .n_prefetches_used = n_prefetches_used - earlier.n_prefetches_used,
          .bytes_read = bytes_read - earlier.bytes_read,
          .wait_seconds = wait_seconds - earlier.wait_seconds};
}

ExpertWave::ExpertWave(ExpertWave&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      members_(std::move(other.members_)),
      leased_slots_(std::move(other.leased_slots_)),
      hits_(std::move(other.hits_)),
      misses_(std::move(other.misses_)),
      reads_(std::move(other.reads_)) {}

ExpertWave::~ExpertWave() {
  if (cache_ != nullptr) cache_->give_back(*this);
}

Result<std::vector<LeasedExpert>> ExpertWave::next() {
  if (!hits_.empty()) return std::exchange(hits_, {});
  std::vector<LeasedExpert> landed;
  const auto began = Clock::now();
  for (size_t i = 0; i < misses_.size();) {
    const Miss miss = misses_[i];
    // Only for the first: then with those that have landed meanwhile.
    PENSTOCK_ASSIGN(const bool is_there, has_landed(miss, /*wait=*/landed.empty()));
    if (!is_there) {
      ++i;
      continue;
    }
    PENSTOCK_TRY(cache_->verify(miss.slot));
    landed.push_back({miss.which, cache_->matrices(miss.slot)});
    misses_.erase(misses_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  cache_->counts_.wait_seconds += std::chrono::duration<double>(Clock::now() - began).count();
  return landed;
}

Result<bool> ExpertWave::has_landed(const Miss& miss, bool wait) {
  ReadBatch& reads = reads_[miss.batch];
  for (size_t r = miss.first_request; r < miss.first_request + miss.n_requests; ++r) {
    if (!wait && !reads.is_done(r)) return false;
    PENSTOCK_TRY(reads.wait_for(r));
  }
  return true;
}

Result<std::unique_ptr<ExpertCache>> ExpertCache::make(const Checkpoint& checkpoint,
                                                       ExpertLayout layout, int64_t n_slots,
                                                       const ReadQueueOptions& reads) {
  PENSTOCK_CHECK(n_slots > 0 && layout.n_experts() > 0, "a cache of nothing");
  n_slots = std::min(n_slots, layout.n_experts());
  std::vector<DirectFile> files;
  std::string note;
  for (const auto& path : checkpoint.files) {
    PENSTOCK_ASSIGN(auto file, DirectFile::open(path));
    if (note.empty()) note = file.note();
    files.push_back(std::move(file));
  }
  PENSTOCK_ASSIGN(auto queue, ReadQueue::make(reads));
  if (note.empty()) note = queue->note();
  const auto bytes = static_cast<size_t>(n_slots) * layout.slot_bytes();
  auto memory = AnonymousMemory::reserve(bytes, OsPages::kHuge);
  if (!memory) {
    Error error = std::move(memory).error().in(
        fmt::format("{} expert slots of {}", n_slots, format_bytes(layout.slot_bytes())));
    error.hint = "--expert-slots";
    return std::unexpected(std::move(error));
  }
  const ModelSpec& spec = checkpoint.spec;
  SlotTable table(
      spec.n_layers(), spec.moe.n_experts, n_slots,
      std::make_unique<ForecastPolicy>(spec.n_layers(), spec.moe.n_experts, spec.moe.top_k));
  std::unique_ptr<ExpertCache> cache(new ExpertCache(std::move(layout), std::move(files),
                                                     *std::move(memory), std::move(queue),
                                                     std::move(table), spec.moe.top_k));
  cache->note_ = std::move(note);
  return cache;
}

ExpertCache::ExpertCache(ExpertLayout layout, std::vector<DirectFile> files, AnonymousMemory memory,
                         std::unique_ptr<ReadQueue> queue, SlotTable table, int top_k)
    : table_(std::move(table)),
      layout_(std::move(layout)),
      files_(std::move(files)),
      memory_(std::move(memory)),
      queue_(std::move(queue)),
      is_unused_(static_cast<size_t>(table_.n_slots())),
      judge_(top_k) {}

ExpertCache::~ExpertCache() { PENSTOCK_CHECK(!has_wave_, "a wave outlives its cache"); }

std::span<std::byte> ExpertCache::bytes(size_t slot) const {
  return memory_.bytes().subspan(slot * layout_.slot_bytes(), layout_.slot_bytes());
}

ExpertMatrices ExpertCache::matrices(size_t slot) const {
  return layout_.matrices(*table_.held_by(slot), bytes(slot));
}

Result<void> ExpertCache::verify(size_t slot) {
  const ExpertId id = *table_.held_by(slot);
  if (verified_.contains(id)) return {};
  PENSTOCK_TRY(layout_.verify(id, bytes(slot)));
  verified_.insert(id);
  return {};
}

size_t ExpertCache::add_reads(size_t slot, std::vector<ReadRequest>& requests) {
  const auto parts = layout_.parts(*table_.held_by(slot));
  for (const ExpertLayout::Part& part : parts) {
    requests.push_back({&files_[part.file], part.offset, bytes(slot).subspan(part.at, part.bytes)});
  }
  return parts.size();
}

ExpertWave ExpertCache::begin(int layer, std::span<const int> experts) {
  PENSTOCK_CHECK(!has_wave_, "two waves at a time");
  PENSTOCK_CHECK(!experts.empty(), "a wave of nothing");
  has_wave_ = true;
  judge_guesses(layer, experts);
  settle_prefetches();
  ExpertWave wave(*this);
  std::vector<ReadRequest> requests;
  std::vector<ExpertWave::Miss> misses;  // of `requests`
  for (const SlotTable::Lease& lease : table_.lease(layer, experts)) {
    wave.members_.push_back(lease.which);
    wave.leased_slots_.push_back(lease.slot);
    counts_.n_prefetches_used += lease.is_hit && is_unused_[lease.slot] ? 1 : 0;
    is_unused_[lease.slot] = false;
    if (!lease.is_hit) {
      const size_t first = requests.size();
      misses.push_back({lease.which, lease.slot, 0, first, add_reads(lease.slot, requests)});
      counts_.bytes_read += layout_.expert_bytes(*table_.held_by(lease.slot));
    } else if (!adopt_prefetch(wave, lease)) {
      wave.hits_.push_back({lease.which, matrices(lease.slot)});
    }
  }
  if (!requests.empty()) {
    for (ExpertWave::Miss& miss : misses) miss.batch = wave.reads_.size();
    wave.misses_.insert(wave.misses_.end(), misses.begin(), misses.end());
    wave.reads_.push_back(queue_->submit(requests));
  }
  counts_.n_hits += std::ssize(wave.hits_);
  counts_.n_misses += std::ssize(wave.misses_);
  return wave;
}

void ExpertCache::prefetch(int layer, std::span<const ExpertGuess> guesses) {
  constexpr int64_t kPartOfSlots = 4;
  settle_prefetches();
  for (Prefetch& earlier : prefetches_) {
    earlier.reads.cancel();
    earlier.is_cancelled = true;
  }
  guessed_layer_ = layer;
  guesses_.clear();
  std::vector<int> experts;  // those that shall be there
  for (const ExpertGuess& guess : guesses) {
    const bool is_there = table_.has(layer, guess.expert);
    if (!is_there) guesses_.push_back(guess);
    if (is_there || judge_.is_worth_a_read(guess.rank)) experts.push_back(guess.expert);
  }
  const auto most = static_cast<size_t>(n_slots() / kPartOfSlots);
  const size_t n = most - std::min(most, prefetches_.size());
  for (const SlotTable::Lease& lease : table_.fill_ahead(layer, experts, n)) {
    std::vector<ReadRequest> requests;
    add_reads(lease.slot, requests);
    prefetches_.push_back({lease.slot, queue_->submit(requests, ReadPriority::kPrefetch)});
    ++counts_.n_prefetches;
  }
}

void ExpertCache::judge_guesses(int layer, std::span<const int> experts) {
  if (layer != std::exchange(guessed_layer_, -1)) return;
  for (const ExpertGuess& guess : guesses_) {
    judge_.tell(guess.rank, std::ranges::find(experts, guess.expert) != experts.end());
  }
}

bool ExpertCache::adopt_prefetch(ExpertWave& wave, const SlotTable::Lease& lease) {
  const auto found = std::ranges::find(prefetches_, lease.slot, &Prefetch::slot);
  if (found == prefetches_.end()) return false;
  found->reads.make_demand();
  wave.misses_.push_back({lease.which, lease.slot, wave.reads_.size(), 0, found->reads.size()});
  wave.reads_.push_back(std::move(found->reads));
  prefetches_.erase(found);
  counts_.bytes_read += layout_.expert_bytes(*table_.held_by(lease.slot));
  ++counts_.n_prefetches_used;
  return true;
}

// What was cancelled has few reads in flight, which were begun a layer ago: they are waited for, so
// that nobody finds a slot whose expert will not come.
void ExpertCache::settle_prefetches() {
  std::erase_if(prefetches_, [&](Prefetch& prefetch) {
    bool has_ended = true;
    for (size_t r = 0; r < prefetch.reads.size(); ++r) has_ended &= prefetch.reads.is_done(r);
    if (!has_ended && !prefetch.is_cancelled) return false;
    const bool is_there = prefetch.reads.wait().has_value() && verify(prefetch.slot).has_value();
    if (is_there) counts_.bytes_read += layout_.expert_bytes(*table_.held_by(prefetch.slot));
    table_.give_back(prefetch.slot, is_there);
    is_unused_[prefetch.slot] = is_there;
    return true;
  });
}

// A slot keeps what was there or was read.
void ExpertCache::give_back(ExpertWave& wave) {
  wave.reads_.clear();
  for (const size_t slot : wave.leased_slots_) {
    const bool is_missing =
        std::ranges::find(wave.misses_, slot, &ExpertWave::Miss::slot) != wave.misses_.end();
    table_.give_back(slot, /*keeps=*/!is_missing);
  }
  has_wave_ = false;
}

}  // namespace penstock
