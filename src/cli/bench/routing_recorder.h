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
  // Into a file, which is made at once: better refused before a long run than after it. An error
  // too where the model routes nothing.
  static Result<RoutingRecorder> make(const Checkpoint& checkpoint, std::filesystem::path path);

  void begin_step(int64_t n_prompt, int64_t n_generated) override {
    record_.begin_step(n_prompt, n_generated);
  }
  void visit(int layer, std::span<const int> experts) override {
    record_.add_visit(layer, experts);
  }
  Result<void> write() const;

 private:
  RoutingRecorder(RoutingRecord record, std::filesystem::path path)
      : record_(std::move(record)), path_(std::move(path)) {}

  RoutingRecord record_;
  std::filesystem::path path_;
};

}  // namespace penstock
