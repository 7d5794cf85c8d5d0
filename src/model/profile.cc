#include "model/profile.h"

#include <algorithm>

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::kEmbedding:
      return "embedding";
    case Operation::kNorm:
      return "norms";
    case Operation::kQkv:
      return "q, k, v product";
    case Operation::kRope:
      return "rope, KV write";
    case Operation::kAttention:
      return "attention";
    case Operation::kAttentionOutput:
      return "output product";
    case Operation::kRouter:
      return "router";
    case Operation::kGrouping:
      return "grouping by expert";
    case Operation::kExpertGateUp:
      return "expert gate, up";
    case Operation::kExpertActivation:
      return "expert activation";
    case Operation::kExpertDown:
      return "expert down";
    case Operation::kWholeExperts:
      return "whole experts";
    case Operation::kCombine:
      return "combine";
    case Operation::kFfnGateUp:
      return "ffn gate, up";
    case Operation::kFfnActivation:
      return "ffn activation";
    case Operation::kFfnDown:
      return "ffn down";
    case Operation::kResidual:
      return "residual sum";
    case Operation::kLogits:
      return "logits product";
  }
  return "?";
}

void OperationTotals::add(const OperationTotals& other) {
  n_calls += other.n_calls;
  seconds += other.seconds;
  waiting_seconds += other.waiting_seconds;
  work.bytes += other.work.bytes;
  work.operations += other.work.operations;
}

void Profile::add(Operation operation, const OperationTotals& totals) {
  totals_[static_cast<size_t>(operation)].add(totals);
  steps_.work.bytes += totals.work.bytes;
  steps_.work.operations += totals.work.operations;
}

const OperationTotals& Profile::of(Operation operation) const {
  return totals_[static_cast<size_t>(operation)];
}

OperationTotals Profile::rest() const {
  OperationTotals rest = {.n_calls = steps_.n_calls,
                          .seconds = steps_.seconds,
                          .waiting_seconds = steps_.waiting_seconds};
  for (const OperationTotals& each : totals_) {
    rest.seconds -= each.seconds;
    rest.waiting_seconds -= each.waiting_seconds;
  }
  rest.waiting_seconds = std::max(0.0, rest.waiting_seconds);  // sums round
  return rest;
}

void OperationTimer::begin(const OperationWork& work) {
  work_ = work;
  waited_ = profile_->waited;
  began_ = Clock::now();
}

void OperationTimer::end() {
  profile_->add(operation_, {.n_calls = 1,
                             .seconds = seconds(Clock::now() - began_),
                             .waiting_seconds = seconds(profile_->waited - waited_),
                             .work = work_});
}

StepTimer::StepTimer(Profile* profile) : profile_(profile) {
  if (profile_ == nullptr) return;
  waited_ = profile_->waited;
  began_ = Clock::now();
}

StepTimer::~StepTimer() {
  if (profile_ == nullptr) return;
  profile_->add_step({.n_calls = 1,
                      .seconds = seconds(Clock::now() - began_),
                      .waiting_seconds = seconds(profile_->waited - waited_)});
}

}  // namespace penstock
