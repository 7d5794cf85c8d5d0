// A backend of a ReadQueue in which one read fails.
#pragma once

#include <cerrno>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "os/read_backend.h"

namespace penstock {

// Reads with threads, but read number `fails`, counted from 0, ends with EIO.
class FailingReads final : public ReadBackend {
 public:
  explicit FailingReads(int fails) : inner_(make_thread_backend(4).value()), fails_(fails) {}

  std::string_view name() const override { return "failing"; }
  size_t depth() const override { return inner_->depth(); }
  void start(std::span<const PieceRead> reads) override {
    for (const PieceRead& read : reads) {
      if (n_started_++ == fails_) {
        failed_.push_back({.id = read.id, .result = -EIO});
      } else {
        inner_->start({&read, 1});
        ++n_inner_;
      }
    }
  }
  void collect(bool wait, std::vector<PieceResult>& results) override {
    const bool has_failed = !failed_.empty();
    results.insert(results.end(), failed_.begin(), failed_.end());
    failed_.clear();
    const size_t before = results.size();
    if (n_inner_ > 0) inner_->collect(wait && !has_failed, results);
    n_inner_ -= results.size() - before;
  }
  int n_started() const { return n_started_; }

 private:
  std::unique_ptr<ReadBackend> inner_;
  int fails_;
  int n_started_ = 0;
  size_t n_inner_ = 0;  // in flight
  std::vector<PieceResult> failed_;
};

}  // namespace penstock
