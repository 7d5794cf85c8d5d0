// Where a step's time goes, by operation: what `penstock bench --breakdown` asks the model.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class Operation : uint8_t {
  kEmbedding,
  kNorm,
  kQkv,
  kRope,  // with biases, head norms and the write to the KV cache
  kAttention,
  kAttentionOutput,
  kRouter,
  kGrouping,  // of tokens by expert
  kExpertGateUp,
  kExpertActivation,
  kExpertDown,
  kWholeExperts,  // the three above in one, where there are enough experts to share
  kCombine,
  kFfnGateUp,  // dense layers and shared experts
  kFfnActivation,
  kFfnDown,
  kResidual,
  kLogits,
};
inline constexpr size_t kOperationCount = static_cast<size_t>(Operation::kLogits) + 1;
std::string_view to_string(Operation operation);

// What an operation must move and compute at least.
struct OperationWork {
  double bytes = 0;       // weights, keys and values: what comes from RAM
  double operations = 0;  // multiplications and additions of products
};

struct OperationTotals {
  int64_t n_calls = 0;
  double seconds = 0;
  double waiting_seconds = 0;  // of these, for workers that were not done yet
  OperationWork work = {};

  void add(const OperationTotals& other);
};

// One thread: the model's, which is worker 0; what it measures is its own time.
class Profile {
 public:
  void add(Operation operation, const OperationTotals& totals);
  void add_step(const OperationTotals& whole) { steps_.add(whole); }

  const OperationTotals& of(Operation operation) const;
  const OperationTotals& steps() const {
    return steps_;
  }  // n_calls: steps; work: of all operations
  // The part of the steps that no operation accounts for.
  OperationTotals rest() const;

  // Grows by what the thread waits for other workers; the pool's to write (Pool::count_waiting).
  std::chrono::nanoseconds waited{0};

 private:
  std::array<OperationTotals, kOperationCount> totals_ = {};
  OperationTotals steps_ = {};
};

// While one lives, the time is its operation's. They do not nest. Without a profile it does
// nothing.
class OperationTimer {
 public:
  OperationTimer(Profile* profile, Operation operation)
      : OperationTimer(profile, operation, [] { return OperationWork{}; }) {}
  // work() is asked only where there is a profile.
  template <class Work>
  OperationTimer(Profile* profile, Operation operation, Work work)
      : profile_(profile), operation_(operation) {
    if (profile_ != nullptr) begin(work());
  }
  OperationTimer(const OperationTimer&) = delete;
  OperationTimer& operator=(const OperationTimer&) = delete;
  ~OperationTimer() {
    if (profile_ != nullptr) end();
  }

 private:
  void begin(const OperationWork& work);
  void end();

  Profile* profile_;
  Operation operation_;
  OperationWork work_ = {};
  std::chrono::steady_clock::time_point began_ = {};
  std::chrono::nanoseconds waited_{0};
};

// The same around a whole step.
class StepTimer {
 public:
  explicit StepTimer(Profile* profile);
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;
  ~StepTimer();

 private:
  Profile* profile_;
  std::chrono::steady_clock::time_point began_ = {};
  std::chrono::nanoseconds waited_{0};
};

}  // namespace penstock
