// A file whose bytes a test knows, and a random walk over everything that can be asked of a
// ReadQueue, held against them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "os/direct_io.h"
#include "os/fake_root_test.h"
#include "os/memory.h"

namespace penstock {

// No two of its aligned blocks are alike.
inline std::string random_text(size_t n_bytes, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::string text(n_bytes, '\0');
  for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(text.data() + i, &word, std::min(sizeof word, n_bytes - i));
  }
  return text;
}

class KnownFile {
 public:
  explicit KnownFile(size_t n_bytes, uint32_t seed = 1) : text_(random_text(n_bytes, seed)) {
    folder_.write("weights", text_);
    file_.emplace(DirectFile::open(folder_.path() / "weights").value());
  }

  const DirectFile& file() const { return *file_; }
  std::string_view text() const { return text_; }

 private:
  FakeRoot folder_;
  std::string text_;
  std::optional<DirectFile> file_;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Ranges of a file on their way into memory of their own, with a guard around each.
class ReadsInFlight {
 public:
  struct Wanted {
    uint64_t offset = 0;
    size_t bytes = 0;
  };

  ReadsInFlight(ReadQueue& queue, const KnownFile& from, std::vector<Wanted> wanted,
                ReadPriority priority)
      : text_(from.text()), wanted_(std::move(wanted)) {
    size_t n_bytes = kDirectAlignment;
    for (const Wanted& range : wanted_) {
      n_bytes += direct_range_around(range.offset, range.bytes).bytes + kDirectAlignment;
    }
    memory_ = AnonymousMemory::reserve(n_bytes, OsPages::kNormal).value();
    std::memset(memory_.bytes().data(), kGuard, n_bytes);
    size_t at = kDirectAlignment;
    for (const Wanted& range : wanted_) {
      const DirectRange read = direct_range_around(range.offset, range.bytes);
      requests_.push_back({.file = &from.file(),
                           .offset = read.offset,
                           .out = memory_.bytes().subspan(at, read.bytes)});
      at += read.bytes + kDirectAlignment;
    }
    batch_.emplace(queue.submit(requests_, priority));
  }

  ReadBatch& batch() { return *batch_; }
  void drop() { batch_.reset(); }

  // Whether all that was wanted of request i is there.
  bool is_right(size_t i) const {
    const auto [offset, n_bytes] = wanted_[i];
    const auto got = as_text(requests_[i].out.subspan(offset - requests_[i].offset, n_bytes));
    return got == text_.substr(offset, n_bytes);
  }
  bool are_guards_whole() const {
    size_t at = 0;
    for (size_t i = 0; i <= requests_.size(); ++i) {
      const auto guard = memory_.bytes().subspan(at, kDirectAlignment);
      if (!std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{kGuard}; }))
        return false;
      at += kDirectAlignment + (i < requests_.size() ? requests_[i].out.size() : 0);
    }
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0xA5;

  std::string_view text_;
  std::vector<Wanted> wanted_;
  AnonymousMemory memory_;
  std::vector<ReadRequest> requests_;
  std::optional<ReadBatch> batch_;  // gone before the memory
};

inline std::vector<ReadsInFlight::Wanted> random_ranges(std::mt19937& random, size_t file_bytes) {
  const auto up_to = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n)(random); };
  std::vector<ReadsInFlight::Wanted> ranges(up_to(6));
  for (auto& range : ranges) {
    const size_t most = up_to(3) == 0 ? 3 * kMiB : 100 * kKiB;
    range.offset = up_to(file_bytes - 1);
    range.bytes = std::min(up_to(most), file_bytes - range.offset);
    if (up_to(9) == 0) range = {.offset = 0, .bytes = 0};
    if (up_to(9) == 0) range.bytes = file_bytes - range.offset;  // with the file's tail
  }
  return ranges;
}

// Batches come, are asked about, waited for, moved and dropped in any order. Nothing may fail.
inline void expect_random_batches_right(ReadQueue& queue, const KnownFile& file, uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  constexpr size_t kMaxBatches = 5;
  std::vector<std::unique_ptr<ReadsInFlight>> running;
  for (int step = 0; step < 150; ++step) {
    if (running.size() < kMaxBatches && below(3) == 0) {
      const auto priority = below(2) == 0 ? ReadPriority::kDemand : ReadPriority::kPrefetch;
      running.push_back(std::make_unique<ReadsInFlight>(
          queue, file, random_ranges(random, file.text().size()), priority));
    }
    if (running.empty()) continue;
    const size_t chosen = below(running.size());
    ReadsInFlight& reads = *running[chosen];
    ReadBatch& batch = reads.batch();
    const size_t n_requests = batch.size();
    bool is_over = false;
    switch (below(6)) {
      case 0:
        queue.poll();
        break;
      case 1:
        if (n_requests == 0) break;
        if (const size_t i = below(n_requests); batch.is_done(i)) {
          EXPECT_TRUE(reads.is_right(i));
        }
        break;
      case 2:
        if (n_requests == 0) break;
        if (const size_t i = below(n_requests); true) {
          const auto done = batch.wait_for(i);
          ASSERT_TRUE(done) << done.error().message;
          EXPECT_TRUE(reads.is_right(i));
        }
        break;
      case 3:
        if (const auto i = batch.wait_next()) {
          EXPECT_TRUE(reads.is_right(*i));
        }
        break;
      case 4: {
        const auto done = batch.wait();
        ASSERT_TRUE(done) << done.error().message;
        for (size_t i = 0; i < n_requests; ++i) EXPECT_TRUE(reads.is_right(i));
        is_over = true;
        break;
      }
      default:
        is_over = true;
    }
    if (!is_over) continue;
    reads.drop();
    EXPECT_TRUE(reads.are_guards_whole());
    running.erase(running.begin() + static_cast<ptrdiff_t>(chosen));
  }
}

}  // namespace penstock
