// How fast a layout will be, from the machine's rates, and what bounds it.
#pragma once

#include <optional>
#include <vector>

#include "memory/plan/layout.h"
#include "memory/plan/rates.h"

namespace penstock {

struct PredictedRate {
  std::optional<double> tok_s = {};  // absent: it depends on a rate that is not known
  Rate bound = Rate::kRamRead;       // what most of the time goes to
  std::vector<Rate> unknown = {};    // the rates that are missing
};

struct Prediction {
  PredictedRate decode = {};   // one sequence, kLeastKvTokens into it (or the KV cache's end)
  PredictedRate prefill = {};  // chunks of ModelDemands::chunk_tokens
  double vram_hit_rate = 0;    // of the experts that slots in VRAM may hold
  double ram_hit_rate = 0;     // of the experts on disk
  // One turn of a conversation, with stand-ins for rates that are not known: what placements are
  // compared by.
  double turn_seconds = 0;
};

// The turn that placements are compared by.
inline constexpr int kTurnPromptTokens = 2048;
inline constexpr int kTurnAnswerTokens = 256;

// The share of experts that is found in one of `slots` out of `n_experts`. Where routing is
// uniform, each expert is as likely to be asked for as any other, so it is the share of them that
// there is room for; real routing has favourites, so a measured rate may be greater.
double hit_rate(int64_t slots, int64_t n_experts, std::optional<double> measured);

class Predictor {
 public:
  // All arguments outlive this.
  Predictor(const ModelDemands& demands, const Limits& limits, const PlanRates& rates);

  Prediction predict(const MemoryLayout& layout) const;
  // Its turn_seconds alone; a turn that is longer than `limit` may be any number beyond that.
  double turn_seconds(const MemoryLayout& layout, double limit) const;

 private:
  // Seconds by what they go to, and which rates they were worked out from.
  class Tally;
  Tally decode(const MemoryLayout& layout) const;
  Tally prefill_chunk(const MemoryLayout& layout) const;
  Tally prefill_chunk(const MemoryLayout& layout, bool streams_pinned, bool streams_middle) const;
  double vram_hits(const MemoryLayout& layout) const;
  double ram_hits(const MemoryLayout& layout) const;
  void add_misses(const BankSums& misses, double share, Tally& tally) const;
  void add_cpu(const BankSums& banks, Tally& tally) const;
  void add_disk(const BankSums& banks, double hits, Tally& tally) const;
  int64_t context_tokens(const MemoryLayout& layout) const;

  const ModelDemands& demands_;
  const Limits& limits_;
  const PlanRates& rates_;
  int top_k_ = 0;  // the most of any layer
};

}  // namespace penstock
