// The order in which layers' banks get the better places, and sums over runs of it: what lets a
// plan try every split of the layers in no time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/plan/demands.h"
#include "memory/plan/limits.h"
#include "memory/plan/rates.h"

namespace penstock {

// Of some banks together. Seconds and flops are those of one token in decode, or of one chunk.
struct BankSums {
  uint64_t bytes = 0;
  int64_t n_experts = 0;
  double active_bytes = 0;  // that a token reads
  double cpu_seconds = 0;   // for the CPU to multiply those, in RAM
  double miss_seconds = 0;  // for link and CPU together, page-locked
  double chunk_bytes = 0;   // that a chunk's tokens read, each expert once
  double chunk_flops = 0;
  int n_unknown = 0;    // banks whose format's CPU rate is not known
  int n_uncounted = 0;  // banks whose arithmetic is not known

  // Inline: millions of them are added.
  BankSums& operator+=(const BankSums& other) {
    bytes += other.bytes;
    n_experts += other.n_experts;
    active_bytes += other.active_bytes;
    cpu_seconds += other.cpu_seconds;
    miss_seconds += other.miss_seconds;
    chunk_bytes += other.chunk_bytes;
    chunk_flops += other.chunk_flops;
    n_unknown += other.n_unknown;
    n_uncounted += other.n_uncounted;
    return *this;
  }
  BankSums& operator-=(const BankSums& other) {
    bytes -= other.bytes;
    n_experts -= other.n_experts;
    active_bytes -= other.active_bytes;
    cpu_seconds -= other.cpu_seconds;
    miss_seconds -= other.miss_seconds;
    chunk_bytes -= other.chunk_bytes;
    chunk_flops -= other.chunk_flops;
    n_unknown -= other.n_unknown;
    n_uncounted -= other.n_uncounted;
    return *this;
  }
};
inline BankSums operator+(BankSums a, const BankSums& b) { return a += b; }
inline BankSums operator-(BankSums a, const BankSums& b) { return a -= b; }

//   [0, n_pinnable)           may be page-locked, small banks first and layers of one size spread
//                             evenly, so that any beginning of them is spread over the model
//   [n_pinnable, n_cachable)  --pin-exempt-layers
//   [n_cachable, n)           --cpu-layers
class BankOrder {
 public:
  BankOrder(const ModelDemands& demands, const Limits& limits, const PlanRates& rates);

  int n() const { return static_cast<int>(layers_.size()); }
  int n_pinnable() const { return n_pinnable_; }
  int n_cachable() const { return n_cachable_; }
  int layer(int place) const { return layers_[static_cast<size_t>(place)]; }
  const BankDemand& demand(int place) const { return *demands_[static_cast<size_t>(place)]; }
  BankSums sums(int begin, int end) const;  // of places [begin, end)

  // A slot holds any expert.
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t largest_bank_bytes() const { return largest_bank_bytes_; }
  int most_top_k() const { return most_top_k_; }

 private:
  void arrange(const ModelDemands& demands, const Limits& limits);
  BankSums sums_of(const BankDemand& bank, int chunk_tokens, const PlanRates& rates) const;

  std::vector<int> layers_;
  std::vector<const BankDemand*> demands_;  // of each place
  std::vector<BankSums> before_;            // of places [0, i)
  int n_pinnable_ = 0;
  int n_cachable_ = 0;
  uint64_t slot_bytes_ = 0;
  uint64_t largest_bank_bytes_ = 0;
  int most_top_k_ = 0;
};

}  // namespace penstock
