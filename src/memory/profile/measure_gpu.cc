#include "memory/profile/measure_gpu.h"

#include <chrono>
#include <functional>
#include <utility>

#include "base/units.h"
#include "cuda/device_objects.h"
#include "memory/pin_store.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr uint64_t kExpertBytes = 5 * kMiB / 2;
constexpr int kExpertsQueued = 8;
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

// Pinned as a whole: copies do not reach over the edge of a grant.
Result<PinnedMemory> pin_whole(PinStore& store, AnonymousMemory memory) {
  PinnedMemory pinned = store.pin(std::move(memory));
  if (pinned.grants().size() == 1 && pinned.pinned_bytes() == pinned.bytes().size()) return pinned;
  return fail(ErrorKind::kExhausted, "the driver does not page-lock {} at once: {}",
              format_bytes(pinned.bytes().size()), store.report().last_refusal);
}

Result<void> measure_copies(Driver& driver, const GpuEffort& effort, GpuMeasurement& measured) {
  PENSTOCK_ASSIGN(AnonymousMemory memory,
                  AnonymousMemory::reserve(effort.copy_bytes, OsPages::kHuge));
  const std::span<std::byte> host = memory.bytes();
  PENSTOCK_ASSIGN(const DeviceMemory vram, DeviceMemory::allocate(driver, host.size()));
  PENSTOCK_ASSIGN(const Stream stream, Stream::create(driver));
  const Drain before_vram(driver, stream);
  const CopyTimer timer(driver, stream, effort.seconds);
  const auto copy_all = [&] { return driver.copy_to_device(vram.bytes(), host, stream.id()); };
  PENSTOCK_ASSIGN(measured.pageable_to_gpu, timer.rate(host.size(), copy_all));
  PinStore store(driver, {}, Log::none());
  PENSTOCK_ASSIGN(const PinnedMemory pinned, pin_whole(store, std::move(memory)));
  const Drain before_pinned(driver, stream);
  PENSTOCK_ASSIGN(measured.to_gpu, timer.rate(host.size(), copy_all));
  PENSTOCK_ASSIGN(measured.to_host, timer.rate(host.size(), [&] {
    return driver.copy_to_host(host, vram.bytes(), stream.id());
  }));
  PENSTOCK_ASSIGN(
      measured.experts_to_gpu, timer.rate(kExpertsQueued * kExpertBytes, [&]() -> Result<void> {
        for (uint64_t i = 0; i < kExpertsQueued; ++i) {
          PENSTOCK_TRY(driver.copy_to_device(vram.bytes().subspan(i * kExpertBytes, kExpertBytes),
                                             host.subspan(i * kExpertBytes, kExpertBytes),
                                             stream.id()));
        }
        return {};
      }));
  return {};
}

Result<PinProbe> probe_pins(Driver& driver, uint64_t most_bytes) {
  PENSTOCK_ASSIGN(AnonymousMemory memory, AnonymousMemory::reserve(most_bytes, OsPages::kHuge));
  PinStore store(driver, {}, Log::none());
  const PinnedMemory pinned = store.pin(std::move(memory));
  return PinProbe{.pinned_bytes = pinned.pinned_bytes(),
                  .was_refused = pinned.pinned_bytes() < most_bytes};
}

}  // namespace

Result<GpuMeasurement> measure_gpu(Driver& driver, const GpuEffort& effort) {
  PENSTOCK_CHECK(effort.copy_bytes >= kExpertsQueued * kExpertBytes, "room for the experts");
  GpuMeasurement measured;
  PENSTOCK_ASSIGN(measured.vram, settled(driver, driver.memory_info()));
  PENSTOCK_TRY(measure_copies(driver, effort, measured));
  PENSTOCK_ASSIGN(measured.pins, probe_pins(driver, effort.most_pinned_bytes));
  return measured;
}

}  // namespace penstock
