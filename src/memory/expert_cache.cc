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
          .bytes_read = bytes_read - earlier.bytes_read,
          .wait_seconds = wait_seconds - earlier.wait_seconds};
}

ExpertWave::ExpertWave(ExpertWave&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      members_(std::move(other.members_)),
      leased_slots_(std::move(other.leased_slots_)),
      hits_(std::move(other.hits_)),
      misses_(std::move(other.misses_)),
      reads_(std::exchange(other.reads_, std::nullopt)) {}

ExpertWave::~ExpertWave() {
  if (cache_ != nullptr) cache_->give_back(*this);
}

Result<std::vector<LeasedExpert>> ExpertWave::next() {
  if (!hits_.empty()) return std::exchange(hits_, {});
  std::vector<LeasedExpert> landed;
  const auto began = Clock::now();
  for (size_t i = 0; i < misses_.size();) {
    const Miss miss = misses_[i];
    bool is_there = true;
    for (size_t r = miss.first_request; r < miss.first_request + miss.n_requests; ++r) {
      // Only for the first: then with those that have landed meanwhile.
      if (landed.empty()) PENSTOCK_TRY(reads_->wait_for(r));
      is_there &= reads_->is_done(r);
    }
    if (!is_there) {
      ++i;
      continue;
    }
    PENSTOCK_TRY(cache_->verify(miss.slot));
    landed.push_back({miss.which, cache_->matrices(miss.slot)});
    misses_.erase(misses_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // Which of them could not be read, if one could not.
  if (misses_.empty() && reads_) PENSTOCK_TRY(reads_->wait());
  cache_->counts_.wait_seconds += std::chrono::duration<double>(Clock::now() - began).count();
  return landed;
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
  std::unique_ptr<ExpertCache> cache(new ExpertCache(
      std::move(layout), std::move(files), *std::move(memory), std::move(queue), std::move(table)));
  cache->note_ = std::move(note);
  return cache;
}

ExpertCache::ExpertCache(ExpertLayout layout, std::vector<DirectFile> files, AnonymousMemory memory,
                         std::unique_ptr<ReadQueue> queue, SlotTable table)
    : table_(std::move(table)),
      layout_(std::move(layout)),
      files_(std::move(files)),
      memory_(std::move(memory)),
      queue_(std::move(queue)) {}

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
    counts_.bytes_read += part.bytes;
  }
  return parts.size();
}

ExpertWave ExpertCache::begin(int layer, std::span<const int> experts) {
  PENSTOCK_CHECK(!has_wave_, "two waves at a time");
  PENSTOCK_CHECK(!experts.empty(), "a wave of nothing");
  has_wave_ = true;
  ExpertWave wave(*this);
  std::vector<ReadRequest> requests;
  for (const SlotTable::Lease& lease : table_.lease(layer, experts)) {
    wave.members_.push_back(lease.which);
    wave.leased_slots_.push_back(lease.slot);
    if (lease.is_hit) {
      wave.hits_.push_back({lease.which, matrices(lease.slot)});
    } else {
      const size_t first = requests.size();
      wave.misses_.push_back({lease.which, lease.slot, first, add_reads(lease.slot, requests)});
    }
  }
  counts_.n_hits += std::ssize(wave.hits_);
  counts_.n_misses += std::ssize(wave.misses_);
  if (!requests.empty()) wave.reads_.emplace(queue_->submit(requests));
  return wave;
}

// A slot keeps what was there or was read.
void ExpertCache::give_back(ExpertWave& wave) {
  wave.reads_.reset();
  for (const size_t slot : wave.leased_slots_) {
    const bool is_missing =
        std::ranges::find(wave.misses_, slot, &ExpertWave::Miss::slot) != wave.misses_.end();
    table_.give_back(slot, /*keeps=*/!is_missing);
  }
  has_wave_ = false;
}

}  // namespace penstock
