#include "memory/routing/compared_policies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace penstock {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

size_t n_of(int n_layers, int n_experts) {
  return static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts);
}

size_t index_of(size_t layer, int expert, size_t n_experts) {
  return layer * n_experts + static_cast<size_t>(expert);
}

size_t index_of(ExpertId id, size_t n_experts) { return id.layer * n_experts + id.index; }

}  // namespace

LruPolicy::LruPolicy(int n_layers, int n_experts)
    : n_experts_(static_cast<size_t>(n_experts)), last_use_(n_of(n_layers, n_experts)) {}

void LruPolicy::use(int layer, std::span<const int> experts) {
  ++wave_;
  for (const int e : experts) {
    last_use_[index_of(static_cast<size_t>(layer), e, n_experts_)] = wave_;
  }
}

void LruPolicy::rate(std::span<const ExpertId> experts, std::span<double> worth) const {
  for (size_t i = 0; i < experts.size(); ++i) {
    worth[i] = static_cast<double>(last_use_[index_of(experts[i], n_experts_)]);
  }
}

LfuPolicy::LfuPolicy(int n_layers, int n_experts, double half_life, Memory memory)
    : n_experts_(static_cast<size_t>(n_experts)),
      half_life_(half_life),
      memory_(memory),
      heat_(n_of(n_layers, n_experts), -std::numeric_limits<double>::infinity()) {}

void LfuPolicy::use(int layer, std::span<const int> experts) {
  const double now = static_cast<double>(++wave_) / half_life_;
  for (const int e : experts) {
    double& heat = heat_[index_of(static_cast<size_t>(layer), e, n_experts_)];
    // log2(2^heat + 2^now)
    heat = std::max(heat, now) + std::log2(1.0 + std::exp2(-std::abs(heat - now)));
  }
}

void LfuPolicy::rate(std::span<const ExpertId> experts, std::span<double> worth) const {
  for (size_t i = 0; i < experts.size(); ++i) worth[i] = heat_[index_of(experts[i], n_experts_)];
}

void LfuPolicy::evicted(ExpertId id) {
  if (memory_ == Memory::kAll) return;
  heat_[index_of(id, n_experts_)] = -std::numeric_limits<double>::infinity();
}

void RoundPolicy::rate(std::span<const ExpertId> experts, std::span<double> worth) const {
  for (size_t i = 0; i < experts.size(); ++i) {
    worth[i] = -((experts[i].layer - current_ - 1 + n_layers_) % n_layers_);
  }
}

BeladyPolicy::BeladyPolicy(const RoutingRecord& record)
    : record_(&record),
      n_experts_(static_cast<size_t>(record.shape().n_experts)),
      next_of_use_(record.n_uses()),
      next_(n_of(record.shape().n_layers, record.shape().n_experts), kNever) {
  const auto visits = record.visits();
  for (size_t v = visits.size(); v-- > 0;) {
    const auto experts = record.experts(visits[v]);
    for (size_t i = 0; i < experts.size(); ++i) {
      int64_t& next = next_[index_of(visits[v].layer, experts[i], n_experts_)];
      next_of_use_[visits[v].first_expert + i] = next;
      next = static_cast<int64_t>(v);
    }
  }
  if (!visits.empty()) n_left_ = visits.front().n_experts;
}

void BeladyPolicy::use(int layer, std::span<const int> experts) {
  const auto visits = record_->visits();
  PENSTOCK_CHECK(
      visit_ < visits.size() && visits[visit_].layer == layer && experts.size() <= n_left_,
      "a wave of another visit");
  const auto all = record_->experts(visits[visit_]);
  for (const int e : experts) {
    const auto at = static_cast<size_t>(std::ranges::lower_bound(all, e) - all.begin());
    next_[index_of(visits[visit_].layer, e, n_experts_)] =
        next_of_use_[visits[visit_].first_expert + at];
  }
  n_left_ -= experts.size();
  if (n_left_ > 0 || ++visit_ == visits.size()) return;
  n_left_ = visits[visit_].n_experts;
}

void BeladyPolicy::rate(std::span<const ExpertId> experts, std::span<double> worth) const {
  for (size_t i = 0; i < experts.size(); ++i) {
    worth[i] = -static_cast<double>(next_[index_of(experts[i], n_experts_)]);
  }
}

}  // namespace penstock
