// Which answers are being given: for /v1/requests, and for whoever wants to end one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class AnswerStage : uint8_t { kWaiting, kPrefilling, kDecoding };

// How far an answer has come. Its connection writes the atomics, and others only show them:
// relaxed, for they publish nothing else.
struct AnswerProgress {
  std::string id = {};
  std::string_view route = {};  // a constant
  int64_t prompt_tokens = 0;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::function<void()> cancel = {};  // from any thread, also after the answer's end
  std::atomic<AnswerStage> stage = AnswerStage::kWaiting;
  std::atomic<int64_t> completion_tokens = 0;
};

// Thread-safe.
class RunningAnswers {
 public:
  void add(std::shared_ptr<const AnswerProgress> answer);
  void remove(std::string_view id);
  // The oldest first.
  std::vector<std::shared_ptr<const AnswerProgress>> all() const;
  // False: there is none with this id.
  bool cancel(std::string_view id) const;

 private:
  using Answers = std::map<std::string, std::shared_ptr<const AnswerProgress>, std::less<>>;

  mutable std::mutex mutex_;
  Answers answers_;  // under mutex_
};

}  // namespace penstock
