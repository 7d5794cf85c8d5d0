#include "memory/expert_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

// Waves, one for each layer of a step: what was used some steps ago counts still, what was used in
// another conversation hardly.
constexpr double kHalfLife = 1024.0;

}  // namespace

ExpertCounts ExpertCounts::since(const ExpertCounts& earlier) const {
  return {.n_hits = n_hits - earlier.n_hits,
          .n_misses = n_misses - earlier.n_misses,
          .bytes_read = bytes_read - earlier.bytes_read,
          .wait_seconds = wait_seconds - earlier.wait_seconds};
}

ExpertWave::ExpertWave(ExpertWave&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      layer_(other.layer_),
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
    cache_->slots_[miss.slot].is_ready = true;
    const ExpertId id = *cache_->slots_[miss.slot].holds;
    landed.push_back({miss.which, cache_->layout_.matrices(id, cache_->bytes(miss.slot))});
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
  std::unique_ptr<ExpertCache> cache(new ExpertCache(
      std::move(layout), std::move(files), *std::move(memory), std::move(queue), n_slots));
  cache->note_ = std::move(note);
  const ModelSpec& spec = checkpoint.spec;
  cache->slot_of_.assign(static_cast<size_t>(spec.n_layers()),
                         std::vector<int32_t>(static_cast<size_t>(spec.moe.n_experts), -1));
  return cache;
}

ExpertCache::ExpertCache(ExpertLayout layout, std::vector<DirectFile> files, AnonymousMemory memory,
                         std::unique_ptr<ReadQueue> queue, int64_t n_slots)
    : layout_(std::move(layout)),
      files_(std::move(files)),
      memory_(std::move(memory)),
      queue_(std::move(queue)),
      slots_(static_cast<size_t>(n_slots)) {}

ExpertCache::~ExpertCache() { PENSTOCK_CHECK(!has_wave_, "a wave outlives its cache"); }

std::span<std::byte> ExpertCache::bytes(size_t slot) const {
  return memory_.bytes().subspan(slot * layout_.slot_bytes(), layout_.slot_bytes());
}

double ExpertCache::heat_now(const Slot& slot) const {
  return slot.heat * std::exp2(-static_cast<double>(wave_ - slot.last_wave) / kHalfLife);
}

void ExpertCache::use(size_t slot) {
  slots_[slot].heat = heat_now(slots_[slot]) + 1.0;
  slots_[slot].last_wave = wave_;
  slots_[slot].is_leased = true;
}

std::vector<size_t> ExpertCache::victims(size_t n) const {
  std::vector<std::pair<double, size_t>> idle;  // by heat; those that hold nothing first
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_leased) continue;
    idle.emplace_back(slots_[i].is_ready ? heat_now(slots_[i]) : -1.0, i);
  }
  n = std::min(n, idle.size());
  std::ranges::nth_element(idle, idle.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<size_t> coldest;
  for (size_t i = 0; i < n; ++i) coldest.push_back(idle[i].second);
  return coldest;
}

ExpertWave ExpertCache::begin(int layer, std::span<const int> experts) {
  PENSTOCK_CHECK(!has_wave_, "two waves at a time");
  PENSTOCK_CHECK(!experts.empty(), "a wave of nothing");
  has_wave_ = true;
  ++wave_;
  ExpertWave wave(*this, layer);
  std::vector<int32_t>& slot_of = slot_of_[static_cast<size_t>(layer)];
  const auto id_of = [&](size_t which) {
    return ExpertId{.layer = static_cast<uint16_t>(layer),
                    .index = static_cast<uint16_t>(experts[which])};
  };
  std::vector<size_t> missing;
  for (size_t which = 0; which < experts.size(); ++which) {
    const int32_t held = slot_of[static_cast<size_t>(experts[which])];
    if (held < 0) {
      missing.push_back(which);
      continue;
    }
    const auto slot = static_cast<size_t>(held);
    use(slot);
    wave.members_.push_back(which);
    wave.leased_slots_.push_back(slot);
    wave.hits_.push_back({which, layout_.matrices(id_of(which), bytes(slot))});
  }
  counts_.n_hits += std::ssize(wave.hits_);

  std::vector<ReadRequest> requests;
  const std::vector<size_t> free = victims(missing.size());
  for (size_t i = 0; i < free.size(); ++i) {
    const size_t which = missing[i];
    Slot& slot = slots_[free[i]];
    if (slot.holds) slot_of_[slot.holds->layer][slot.holds->index] = -1;
    slot = {.holds = id_of(which)};
    slot_of[static_cast<size_t>(experts[which])] = static_cast<int32_t>(free[i]);
    use(free[i]);
    wave.members_.push_back(which);
    wave.leased_slots_.push_back(free[i]);
    const auto parts = layout_.parts(id_of(which));
    wave.misses_.push_back({which, free[i], requests.size(), parts.size()});
    for (const ExpertLayout::Part& part : parts) {
      requests.push_back(
          {&files_[part.file], part.offset, bytes(free[i]).subspan(part.at, part.bytes)});
      counts_.bytes_read += part.bytes;
    }
  }
  counts_.n_misses += std::ssize(free);
  if (!requests.empty()) wave.reads_.emplace(queue_->submit(requests));
  return wave;
}

// What was not read holds nothing.
void ExpertCache::give_back(ExpertWave& wave) {
  wave.reads_.reset();
  for (const size_t i : wave.leased_slots_) {
    Slot& slot = slots_[i];
    slot.is_leased = false;
    const bool is_hit = slot.is_ready;
    if (is_hit) continue;
    slot_of_[slot.holds->layer][slot.holds->index] = -1;
    slot = {};
  }
  has_wave_ = false;
}

}  // namespace penstock
