#include "memory/profile/measure_disk.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/units.h"
#include "os/direct_io.h"
#include "os/memory.h"
#include "os/output.h"
#include "os/scratch_file.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLeastFile = 64 * kMiB;
constexpr uint64_t kShareOfFree = 4;  // a quarter of the disk's free space at most
constexpr size_t kPieceBytes = 4 * kMiB;
constexpr size_t kBatchBytes = 64 * kMiB;
constexpr size_t kExpertBytes = 2560 * kKiB;  // of Qwen3-30B-A3B in 4 bits
constexpr size_t kExpertsAtOnce = 8;
constexpr size_t kSmallAtOnce = 512;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Disks and file systems that compress must not find anything to gain.
void fill_randomly(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

Result<ScratchFile> write_file(const std::filesystem::path& folder, const DiskEffort& effort,
                               std::span<std::byte> buffer, const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const uint64_t free, free_disk_bytes(folder));
  const uint64_t wanted =
      std::min(effort.file_bytes, free / kShareOfFree) / kPieceBytes * kPieceBytes;
  if (wanted < kLeastFile) {
    return fail(ErrorKind::kExhausted, "{} has {} free, too little to measure its disk with",
                folder.string(), format_bytes(free));
  }
  PENSTOCK_ASSIGN(ScratchFile file, ScratchFile::create(folder));
  std::mt19937_64 random(1);
  const auto began = Clock::now();
  while (file.bytes() < wanted) {
    if (file.bytes() >= kLeastFile && seconds_since(began) > effort.write_seconds) break;
    progress({.stage = "writing to the disk", .done = file.bytes(), .total = wanted});
    fill_randomly(buffer.first(kPieceBytes), random);
    PENSTOCK_TRY(file.append(buffer.first(kPieceBytes)));
    // Now and then, so that the time bounds what reaches the disk and not the page cache.
    if (file.bytes() % kLeastFile == 0) PENSTOCK_TRY(file.settle());
  }
  PENSTOCK_TRY(file.settle());
  progress({.stage = "writing to the disk", .done = file.bytes(), .total = file.bytes()});
  return file;
}

struct ReadKind {
  std::string_view stage;
  size_t request_bytes = 0;
  size_t at_once = 0;
  bool is_random = false;
};
constexpr ReadKind kInOrder = {"reading in order", kMiB, kBatchBytes / kMiB, false};
constexpr ReadKind kExperts = {"reading experts", kExpertBytes, kExpertsAtOnce, true};
constexpr ReadKind kSmall = {"reading 4 KiB at a time", kDirectAlignment, kSmallAtOnce, true};

class Reads {
 public:
  Reads(const DirectFile& file, ReadQueue& queue, std::span<std::byte> memory, double seconds)
      : file_(file), queue_(queue), memory_(memory), seconds_(seconds) {}

  // Requests a second, of batches that each end before the next begins.
  Result<double> rate(const ReadKind& kind, const ProgressFn& progress) {
    std::vector<ReadRequest> requests(kind.at_once);
    constexpr int kLeastBatches = 3;
    double n_requests = 0;
    const auto began = Clock::now();
    for (int batch = 0; batch < kLeastBatches || seconds_since(began) < seconds_; ++batch) {
      for (size_t i = 0; i < requests.size(); ++i) {
        requests[i] = {.file = &file_,
                       .offset = next_offset(kind),
                       .out = memory_.subspan(i * kind.request_bytes, kind.request_bytes)};
      }
      PENSTOCK_TRY(queue_.submit(requests).wait());
      n_requests += static_cast<double>(kind.at_once);
      const auto read = static_cast<uint64_t>(n_requests) * kind.request_bytes;
      progress({.stage = kind.stage, .done = read, .total = 0});
    }
    return n_requests / seconds_since(began);
  }

 private:
  uint64_t next_offset(const ReadKind& kind) {
    if (!kind.is_random) {
      const uint64_t offset = std::exchange(next_, next_ + kind.request_bytes);
      if (next_ + kind.request_bytes > file_.size()) next_ = 0;
      return offset;
    }
    const uint64_t last = (file_.size() - kind.request_bytes) / kDirectAlignment;
    return std::uniform_int_distribution<uint64_t>(0, last)(random_) * kDirectAlignment;
  }

  const DirectFile& file_;
  ReadQueue& queue_;
  std::span<std::byte> memory_;
  double seconds_;
  uint64_t next_ = 0;
  std::mt19937_64 random_{1};
};

}  // namespace

Result<DiskMeasurement> measure_disk(const std::filesystem::path& folder, const DiskEffort& effort,
                                     const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const AnonymousMemory memory,
                  AnonymousMemory::reserve(kBatchBytes, OsPages::kHuge));
  PENSTOCK_ASSIGN(const ScratchFile scratch, write_file(folder, effort, memory.bytes(), progress));
  PENSTOCK_ASSIGN(const DirectFile file, DirectFile::open(scratch.path()));
  PENSTOCK_ASSIGN(const auto queue, ReadQueue::make());
  constexpr double kGb = 1e9;
  Reads reads(file, *queue, memory.bytes(), effort.read_seconds);
  DiskMeasurement measured = {.file_bytes = file.size(),
                              .is_direct = file.is_direct(),
                              .backend = std::string(queue->backend())};
  PENSTOCK_ASSIGN(const double in_order, reads.rate(kInOrder, progress));
  PENSTOCK_ASSIGN(const double experts, reads.rate(kExperts, progress));
  PENSTOCK_ASSIGN(const double small, reads.rate(kSmall, progress));
  measured.rates = {.sequential_gb_s = in_order * static_cast<double>(kInOrder.request_bytes) / kGb,
                    .random_gb_s = experts * static_cast<double>(kExperts.request_bytes) / kGb,
                    .small_reads_a_s = small};
  return measured;
}

}  // namespace penstock
