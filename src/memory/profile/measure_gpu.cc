#include "memory/profile/measure_gpu.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/units.h"
#include "cuda/device_objects.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr uint64_t kExpertBytes = 5 * kMiB / 2;
constexpr int kExpertsQueued = 8;
constexpr uint64_t kLargestPiece = 64 * kMiB;
constexpr uint64_t kSmallestPiece = 64 * kKiB;

// A part of `memory` that is registered while this lives. What the driver does not take back stays
// in use until the process ends, and all of its memory with it.
class PinnedRange {
 public:
  static Result<PinnedRange> pin(Driver& driver, AnonymousMemory& memory,
                                 std::span<std::byte> range) {
    PENSTOCK_TRY(settled(driver, driver.register_host(range)));
    return PinnedRange(driver, memory, range.data());
  }
  PinnedRange(PinnedRange&& other) noexcept
      : driver_(other.driver_),
        memory_(other.memory_),
        begin_(std::exchange(other.begin_, nullptr)) {}
  ~PinnedRange() {
    if (begin_ == nullptr) return;
    if (!settled(*driver_, driver_->unregister_host(begin_))) memory_->leak();
  }

 private:
  PinnedRange(Driver& driver, AnonymousMemory& memory, const std::byte* begin)
      : driver_(&driver), memory_(&memory), begin_(begin) {}

  Driver* driver_;
  AnonymousMemory* memory_;
  const std::byte* begin_;  // null: moved from
};

PinProbe probe_pins(Driver& driver, AnonymousMemory& memory, std::span<std::byte> host) {
  PinProbe probe;
  std::vector<PinnedRange> pinned;
  for (uint64_t piece = kLargestPiece; piece >= kSmallestPiece;) {
    const uint64_t bytes = std::min<uint64_t>(piece, host.size() - probe.pinned_bytes);
    if (bytes < kSmallestPiece) break;
    auto range = PinnedRange::pin(driver, memory, host.subspan(probe.pinned_bytes, bytes));
    if (range) {
      pinned.push_back(*std::move(range));
      probe.pinned_bytes += bytes;
    } else {
      probe.was_refused = true;
      piece /= 2;
    }
  }
  return probe;
}

// At its end nothing is queued on the stream: made after the memory that its work uses, it lets
// that be given back, also where an error ends the measurement early. One refusal may be an
// accident; a GPU that is lost refuses for good, and then the memory as well.
class Drain {
 public:
  Drain(Driver& driver, const Stream& stream) : driver_(driver), stream_(stream) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  ~Drain() {
    constexpr int kAttempts = 2;
    for (int i = 0; i < kAttempts; ++i) {
      if (settled(driver_, driver_.synchronise(stream_.id()))) return;
    }
  }

 private:
  Driver& driver_;
  const Stream& stream_;
};

class CopyTimer {
 public:
  CopyTimer(Driver& driver, const Stream& stream, double seconds)
      : driver_(driver), stream_(stream), seconds_(seconds) {}

  // GB/s of copies that `queue` queues, so many bytes each time. A first time does not count.
  Result<double> rate(uint64_t bytes, const std::function<Result<void>()>& queue) const {
    using Clock = std::chrono::steady_clock;
    PENSTOCK_TRY(once(queue));
    const auto began = Clock::now();
    std::chrono::duration<double> taken{};
    int64_t n = 0;
    do {
      PENSTOCK_TRY(once(queue));
      ++n;
      taken = Clock::now() - began;
    } while (taken.count() < seconds_);
    return static_cast<double>(bytes) * static_cast<double>(n) / taken.count() * 1e-9;
  }

 private:
  Result<void> once(const std::function<Result<void>()>& queue) const {
    PENSTOCK_TRY(settled(driver_, queue()));
    return settled(driver_, driver_.synchronise(stream_.id()));
  }

  Driver& driver_;
  const Stream& stream_;
  double seconds_;
};

Result<void> measure_copies(Driver& driver, const GpuEffort& effort, AnonymousMemory& memory,
                            GpuMeasurement& measured) {
  const std::span<std::byte> large = memory.bytes().first(effort.copy_bytes);
  PENSTOCK_ASSIGN(const DeviceMemory vram, DeviceMemory::allocate(driver, large.size()));
  PENSTOCK_ASSIGN(const Stream stream, Stream::create(driver));
  const Drain before_vram(driver, stream);
  const CopyTimer timer(driver, stream, effort.seconds);
  const auto copy_all = [&] { return driver.copy_to_device(vram.bytes(), large, stream.id()); };
  PENSTOCK_ASSIGN(measured.pageable_to_gpu, timer.rate(large.size(), copy_all));
  PENSTOCK_ASSIGN(const PinnedRange pinned, PinnedRange::pin(driver, memory, large));
  const Drain before_pinned(driver, stream);
  PENSTOCK_ASSIGN(measured.to_gpu, timer.rate(large.size(), copy_all));
  PENSTOCK_ASSIGN(measured.to_host, timer.rate(large.size(), [&] {
    return driver.copy_to_host(large, vram.bytes(), stream.id());
  }));
  PENSTOCK_ASSIGN(
      measured.experts_to_gpu, timer.rate(kExpertsQueued * kExpertBytes, [&]() -> Result<void> {
        for (uint64_t i = 0; i < kExpertsQueued; ++i) {
          PENSTOCK_TRY(driver.copy_to_device(vram.bytes().subspan(i * kExpertBytes, kExpertBytes),
                                             large.subspan(i * kExpertBytes, kExpertBytes),
                                             stream.id()));
        }
        return {};
      }));
  return {};
}

}  // namespace

Result<GpuMeasurement> measure_gpu(Driver& driver, const GpuEffort& effort) {
  PENSTOCK_CHECK(effort.copy_bytes >= kExpertsQueued * kExpertBytes, "room for the experts");
  GpuMeasurement measured;
  PENSTOCK_ASSIGN(measured.vram, settled(driver, driver.memory_info()));
  const uint64_t bytes = std::max(effort.copy_bytes, effort.most_pinned_bytes);
  PENSTOCK_ASSIGN(AnonymousMemory memory, AnonymousMemory::reserve(bytes, OsPages::kHuge));
  const std::span<std::byte> host = memory.bytes();
  PENSTOCK_TRY(measure_copies(driver, effort, memory, measured));
  measured.pins = probe_pins(driver, memory, host.first(effort.most_pinned_bytes));
  return measured;
}

}  // namespace penstock
