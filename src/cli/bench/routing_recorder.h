// What `penstock bench MODEL --record-routing` hears from the model, and the file it becomes.
#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "memory/routing/routing_record.h"
#include "model/routing_observer.h"

namespace penstock {

class RoutingRecorder final : public RoutingObserver {
 public:
  // An error where the model routes nothing.
  static Result<RoutingRecorder> make(const Checkpoint& checkpoint);

  void begin_step(int64_t n_prompt, int64_t n_generated) override {
    record_.begin_step(n_prompt, n_generated);
  }
  void visit(int layer, std::span<const int> experts) override {
    record_.add_visit(layer, experts);
  }
  Result<void> write(const std::filesystem::path& path) const;

 private:
  explicit RoutingRecorder(RoutingRecord record) : record_(std::move(record)) {}

  RoutingRecord record_;
};

}  // namespace penstock
