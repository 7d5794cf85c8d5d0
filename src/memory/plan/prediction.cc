#include "memory/plan/prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace penstock {
namespace {

// What is not page-locked is copied once more by the CPU on its way to the GPU: read, written, and
// read again by the copy.
constexpr double kStagedTraffic = 3;

PredictedRate rate_of(double tokens, double seconds, Rate bound, std::vector<Rate> unknown) {
  PredictedRate rate = {.bound = bound, .unknown = std::move(unknown)};
  if (rate.unknown.empty() && seconds > 0) rate.tok_s = tokens / seconds;
  return rate;
}

}  // namespace

Predictor::Predictor(const ModelDemands& demands, const Limits& limits, const PlanRates& rates)
    : demands_(demands), limits_(limits), rates_(rates) {
  for (const BankDemand& bank : demands.layers) top_k_ = std::max(top_k_, bank.top_k);
}

double hit_rate(int64_t slots, int64_t n_experts, std::optional<double> measured) {
  if (slots >= n_experts) return 1;
  if (slots == 0) return 0;
  return std::max(static_cast<double>(slots) / static_cast<double>(n_experts),
                  measured.value_or(0));
}

class Predictor::Tally {
 public:
  explicit Tally(const PlanRates& rates) : rates_(&rates) {}

  // Work that takes its time by itself, after what was added before.
  void add(Rate rate, double amount) { add_seconds(rate, amount / (*rates_)[rate], amount); }
  void add_seconds(Rate rate, double seconds, double amount) {
    if (amount <= 0) return;
    seconds_[static_cast<size_t>(rate)] += seconds;
    total_ += seconds;
    needs(rate);
  }
  // The result depends on the rate, whether or not it takes time.
  void needs(Rate rate) { used_ |= mark(rate); }
  // A format's own rate: known or not apart from the others.
  void needs_cpu_weights(bool is_known) {
    if (!is_known) unknown_ |= mark(Rate::kCpuExperts);
  }
  void misses_arithmetic() { unknown_ |= mark(Rate::kModelArithmetic); }

  // Work of both at once: only what takes longest counts, but the result depends on all.
  void join(const Tally& other) {
    if (other.total_ > total_) {
      seconds_ = other.seconds_;
      total_ = other.total_;
    }
    merge_marks(other);
  }
  void append(const Tally& other) {
    for (size_t i = 0; i < kRates; ++i) seconds_[i] += other.seconds_[i];
    total_ += other.total_;
    merge_marks(other);
  }

  double total() const { return total_; }
  Rate bound() const {
    const auto most = std::ranges::max_element(seconds_);
    return static_cast<Rate>(most - seconds_.begin());
  }
  std::vector<Rate> unknown() const {
    std::vector<Rate> found;
    for (size_t i = 0; i < kRates; ++i) {
      const auto rate = static_cast<Rate>(i);
      const bool is_used = (used_ & mark(rate)) != 0;
      const bool is_unknown = (unknown_ & mark(rate)) != 0;
      if (is_unknown || (is_used && !rates_->is_known(rate))) found.push_back(rate);
    }
    return found;
  }

 private:
  static uint32_t mark(Rate rate) { return uint32_t{1} << static_cast<uint32_t>(rate); }
  void merge_marks(const Tally& other) {
    used_ |= other.used_;
    unknown_ |= other.unknown_;
  }

  const PlanRates* rates_;
  std::array<double, kRates> seconds_ = {};
  double total_ = 0;
  uint32_t used_ = 0;
  uint32_t unknown_ = 0;
};

double Predictor::vram_hits(const MemoryLayout& layout) const {
  return hit_rate(layout.vram_slots, layout.sums.covered.n_experts, limits_.hit_rate);
}

double Predictor::ram_hits(const MemoryLayout& layout) const {
  if (!layout.rest_on_disk) return 1;
  return hit_rate(layout.ram_slots, layout.sums.rest().n_experts, limits_.hit_rate);
}

int64_t Predictor::context_tokens(const MemoryLayout& layout) const {
  return std::min(kLeastKvTokens, layout.kv_tokens);
}

// A miss in page-locked RAM: both link and CPU work on them (BankOrder::sums_of). The time goes to
// RAM where it cannot feed both, else to the quicker of the two.
void Predictor::add_misses(const BankSums& misses, double share, Tally& tally) const {
  if (misses.n_experts == 0) return;
  tally.needs(Rate::kMissCopies);
  tally.needs(Rate::kRamRead);
  tally.needs_cpu_weights(misses.n_unknown == 0);
  const double seconds = share * misses.miss_seconds;
  const double cpu = misses.active_bytes / misses.cpu_seconds;
  const double link = rates_[Rate::kMissCopies];
  const double ram = rates_[Rate::kRamRead];
  const Rate bound = cpu + link >= ram ? Rate::kRamRead
                     : link >= cpu     ? Rate::kMissCopies
                                       : Rate::kCpuExperts;
  if (seconds > 0) tally.add_seconds(bound, seconds, seconds);
}

// Banks in RAM that the CPU multiplies: bound by the kernel, or by the RAM where that is no faster.
void Predictor::add_cpu(const BankSums& banks, Tally& tally) const {
  if (banks.n_experts == 0) return;
  tally.needs_cpu_weights(banks.n_unknown == 0);
  const double at_ram_rate = banks.active_bytes / rates_[Rate::kRamRead];
  constexpr double kNearly = 1.001;  // sums are rounded
  const bool is_ram_bound =
      rates_.is_known(Rate::kRamRead) && banks.cpu_seconds <= kNearly * at_ram_rate;
  tally.add_seconds(is_ram_bound ? Rate::kRamRead : Rate::kCpuExperts, banks.cpu_seconds,
                    banks.active_bytes);
}

// In each layer, experts that are in a slot are multiplied while the others are read; those follow.
// Of its k experts n are missing:
//   max((k - n) cpu, n read) + n cpu = max(k cpu, n (read + cpu))
// A layer cannot use what another leaves of the disk's time, so it is the mean of these that
// counts, not that of a mean n: each expert is taken to be missing independently of the others.
void Predictor::add_disk(const BankSums& banks, double hits, Tally& tally) const {
  if (banks.n_experts == 0) return;
  const double each = banks.cpu_seconds + banks.active_bytes / rates_[Rate::kDiskRandom];
  const double k = std::max(top_k_, 1);
  double mean_seconds = 0;
  double ways = 1;  // to choose n of k
  for (int n = 0; n <= std::max(top_k_, 1); ++n) {
    const double share = ways * std::pow(1 - hits, n) * std::pow(hits, k - n);
    mean_seconds += share * std::max(banks.cpu_seconds, n / k * each);
    ways *= (k - n) / (n + 1);
  }
  add_cpu(banks, tally);
  tally.needs(Rate::kDiskRandom);
  const double waited = mean_seconds - banks.cpu_seconds;
  if (hits < 1) tally.add_seconds(Rate::kDiskRandom, waited, waited);
}

// One token of one sequence, in seconds:
//   every weight outside the experts, the KV read so far, and of each bank what the token needs,
//   each at the rate of the place it is in; layers one after the other.
Predictor::Tally Predictor::decode(const MemoryLayout& layout) const {
  const Split& split = layout.split;
  Tally tally(rates_);
  const double kept =
      static_cast<double>(context_tokens(layout)) * static_cast<double>(demands_.kv_bytes_a_token) +
      static_cast<double>(demands_.sequence_bytes);
  const auto dense = static_cast<double>(demands_.dense_bytes);
  const double hits = vram_hits(layout);
  if (layout.has_gpu) {
    tally.add(Rate::kVram, dense + kept + layout.sums.in_vram.active_bytes +
                               hits * layout.sums.covered.active_bytes);
    if (split.cover != SlotCover::kNothing) add_misses(layout.sums.pinned, 1 - hits, tally);
  } else {
    const PlanRates::Known cpu = rates_.cpu_weights(demands_.dense_format);
    tally.needs_cpu_weights(cpu.is_known);
    const bool is_ram_bound = cpu.per_second >= rates_[Rate::kRamRead];
    tally.add_seconds(is_ram_bound ? Rate::kRamRead : Rate::kCpuExperts, dense / cpu.per_second,
                      dense);
    const double attention = rates_.cpu_attention();
    tally.needs(Rate::kRamRead);
    tally.add_seconds(attention < rates_[Rate::kRamRead] ? Rate::kCpuExperts : Rate::kRamRead,
                      kept / attention, kept);
  }
  BankSums rest = layout.sums.middle;
  if (split.cover == SlotCover::kAllCachable) {
    rest.active_bytes *= 1 - hits;
    rest.cpu_seconds *= 1 - hits;
  }
  rest += layout.sums.cpu_only;
  if (layout.rest_on_disk) {
    add_disk(rest, ram_hits(layout), tally);
  } else {
    add_cpu(rest, tally);
  }
  if (!split.rows_in_ram) tally.add(Rate::kSmallReads, demands_.rows_a_token);
  return tally;
}

// A chunk's tokens choose among all experts of a layer, so each needed one is read once; the next
// layer's are on their way while this one's are multiplied. Banks that are not in VRAM are streamed
// through the ring or left to the CPU, whichever is sooner done.
Predictor::Tally Predictor::prefill_chunk(const MemoryLayout& layout) const {
  if (!layout.split.has_ring) {
    return prefill_chunk(layout, /*streams_pinned=*/false, /*streams_middle=*/false);
  }
  Tally best = prefill_chunk(layout, /*streams_pinned=*/true, /*streams_middle=*/false);
  for (const bool streams : {true, false}) {
    const Tally other = prefill_chunk(layout, streams, streams);
    if (other.total() < best.total()) best = other;
  }
  return best;
}

Predictor::Tally Predictor::prefill_chunk(const MemoryLayout& layout, bool streams_pinned,
                                          bool streams_middle) const {
  const Split& split = layout.split;
  const bool covers_middle = split.cover == SlotCover::kAllCachable;
  const double hits = vram_hits(layout);
  const BankSums& in_vram = layout.sums.in_vram;
  const BankSums& pinned = layout.sums.pinned;
  const BankSums& middle = layout.sums.middle;
  const double dense_flops =
      2.0 * demands_.chunk_tokens * static_cast<double>(demands_.dense_params);
  const auto dense_bytes = static_cast<double>(demands_.dense_bytes);
  const BankSums on_gpu =
      in_vram + (streams_pinned ? pinned : BankSums{}) + (streams_middle ? middle : BankSums{});
  const BankSums on_cpu = layout.sums.cpu_only + (streams_pinned ? BankSums{} : pinned) +
                          (streams_middle ? BankSums{} : middle);

  Tally cpu(rates_);
  cpu.add(Rate::kCpuArithmetic, on_cpu.chunk_flops + (layout.has_gpu ? 0 : dense_flops));
  Tally cpu_reads(rates_);
  cpu_reads.add(Rate::kRamRead, on_cpu.chunk_bytes + (layout.has_gpu ? 0 : dense_bytes));
  cpu.join(cpu_reads);

  Tally whole(rates_);
  if (layout.has_gpu) {
    whole.add(Rate::kGpuArithmetic, dense_flops + on_gpu.chunk_flops);
    Tally vram(rates_);
    vram.add(Rate::kVram, dense_bytes + on_gpu.chunk_bytes);
    whole.join(vram);
    Tally link(rates_);
    if (streams_pinned) link.add(Rate::kHostToDevice, (1 - hits) * pinned.chunk_bytes);
    if (streams_middle) {
      const double bytes = (covers_middle ? 1 - hits : 1) * middle.chunk_bytes;
      const double staged =
          std::min(rates_[Rate::kHostToDevice], rates_[Rate::kRamRead] / kStagedTraffic);
      link.needs(Rate::kRamRead);
      link.add_seconds(Rate::kHostToDevice, bytes / staged, bytes);
    }
    whole.join(link);
  }
  whole.append(cpu);
  if (layout.rest_on_disk) {
    const BankSums rest = middle + layout.sums.cpu_only;
    Tally disk(rates_);
    disk.add(Rate::kDiskSequential, (1 - ram_hits(layout)) * rest.chunk_bytes);
    whole.join(disk);
  }
  if (on_gpu.n_uncounted + on_cpu.n_uncounted > 0 || demands_.dense_params == 0) {
    whole.misses_arithmetic();
  }
  return whole;
}

// Prefill has more to compare, and most layouts that lose have lost before it.
double Predictor::turn_seconds(const MemoryLayout& layout, double limit) const {
  const double answer = kTurnAnswerTokens * decode(layout).total();
  if (answer > limit) return answer;
  return answer + kTurnPromptTokens * prefill_chunk(layout).total() / demands_.chunk_tokens;
}

Prediction Predictor::predict(const MemoryLayout& layout) const {
  const Tally token = decode(layout);
  const Tally chunk = prefill_chunk(layout);
  const double chunk_tokens = demands_.chunk_tokens;
  return {.decode = rate_of(1, token.total(), token.bound(), token.unknown()),
          .prefill = rate_of(chunk_tokens, chunk.total(), chunk.bound(), chunk.unknown()),
          .vram_hit_rate = vram_hits(layout),
          .ram_hit_rate = ram_hits(layout),
          .turn_seconds =
              kTurnPromptTokens * chunk.total() / chunk_tokens + kTurnAnswerTokens * token.total()};
}

}  // namespace penstock
