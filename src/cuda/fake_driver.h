// For tests, of every room that talks to a GPU, and therefore part of the library: a Driver on host
// memory. Its device memory cannot be confused with the host's, its work runs late and in any order
// that streams and events allow, and it refuses what a script says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "base/log.h"
#include "base/result.h"
#include "base/units.h"
#include "cuda/driver.h"
#include "cuda/fake_pins.h"
#include "cuda/fake_work.h"

namespace penstock {

enum class DriverCall : uint8_t {
  kMemoryInfo,
  kAllocate,
  kFree,
  kRegister,
  kUnregister,
  kDeviceView,
  kCreateStream,
  kDestroyStream,
  kSynchroniseStream,
  kCreateEvent,
  kDestroyEvent,
  kRecord,
  kWait,
  kHasHappened,
  kSynchroniseEvent,
  kCopyToDevice,
  kCopyToHost,
  kLaunch,
  kBeginGraph,
  kEndGraph,
  kDestroyGraph,
  kLaunchGraph,
};
inline constexpr size_t kDriverCallCount = static_cast<size_t>(DriverCall::kLaunchGraph) + 1;

// Calls [first, first + count), counted from 1 among those of its kind, or among all, are refused.
struct FakeRefusal {
  static constexpr int64_t kForGood = std::numeric_limits<int64_t>::max() / 2;

  std::optional<DriverCall> call = {};  // nothing: of any kind
  int64_t first = 1;
  int64_t count = 1;
};

struct FakeDriverOptions {
  uint64_t seed = 1;
  double eagerness = 0.2;  // in [0, 1): how soon work runs that nobody waits for yet
  size_t device_bytes = kGiB;
  FakePinLimits pins = {};
  size_t context_bytes = 0;              // of the pool that registrations come from
  bool device_memory_is_pooled = false;  // comes from that pool too
  bool leaves_errors_pending = true;
  std::vector<FakeRefusal> refusals = {};
  Log log = Log::none();
};

// What a kernel's stand-in was launched with. Its spans are host memory: the stand-in is host code.
class FakeKernelCall {
 public:
  const KernelLaunch& launch() const { return launch_; }
  // Has the stand-in run once more, later: it waits for something that the host does meanwhile.
  void wait() const { is_waiting_ = true; }
  template <class T>
  std::span<T> span(size_t argument) const {
    const KernelArgument& given = arguments_.at(argument);
    PENSTOCK_CHECK(given.memory().has_value(), "the argument is no span");
    PENSTOCK_CHECK(given.object_bytes() == sizeof(T), "the argument is a span of another type");
    PENSTOCK_CHECK(given.is_writable() || std::is_const_v<T>, "the argument is read only");
    return {reinterpret_cast<T*>(memory_.at(argument)), given.memory()->size() / sizeof(T)};
  }
  template <class T>
  T value(size_t argument) const {
    const KernelArgument& given = arguments_.at(argument);
    PENSTOCK_CHECK(!given.memory() && given.bytes().size() == sizeof(T),
                   "the argument is a value of another type");
    T value;
    std::memcpy(&value, given.bytes().data(), sizeof(T));
    return value;
  }

 private:
  friend class FakeDriver;
  mutable bool is_waiting_ = false;
  KernelLaunch launch_;
  std::vector<KernelArgument> arguments_;
  std::vector<std::byte*> memory_;  // where each span is; null for values
};

// Runs in a kernel's place: the whole grid at once, when its turn comes. It must not call the
// driver.
using FakeKernel = std::function<void(const FakeKernelCall& call)>;

// A register or unregister call, as it was made.
struct PinCall {
  const std::byte* begin = nullptr;
  size_t bytes = 0;  // 0 for an unregister
  bool is_register = false;
  bool was_granted = false;

  bool operator==(const PinCall&) const = default;
};

// Thread-safe. Misuse that a real driver would answer with wrong data or a crash stops the program:
// memory given back while queued work uses it, anything not given back at the end (but for what a
// script refused to take back), an error left pending at the end.
class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(FakeDriverOptions options = {});
  ~FakeDriver() override;

  void add_kernel(std::string name, FakeKernel kernel);
  void set_pin_total(size_t bytes);  // from now on, as when another process takes or leaves some

  int64_t n_calls(DriverCall call) const;
  int64_t n_calls() const;  // of all kinds
  size_t registered_bytes() const;
  size_t n_registrations() const;
  bool is_registered(std::span<const std::byte> range) const;  // as a whole, at once
  size_t device_bytes_used() const;
  std::vector<PinCall> pin_calls() const;  // in the order they came

  DeviceId device() const override { return DeviceId{0}; }
  Result<DeviceMemoryInfo> memory_info() override;
  Result<DeviceBytes> allocate(size_t bytes) override;
  void free(DeviceBytes memory) override;
  Result<void> register_host(std::span<std::byte> range) override;
  Result<void> unregister_host(const std::byte* begin) override;
  Result<DeviceBytes> device_view(std::span<std::byte> range) override;
  Result<StreamId> create_stream() override;
  void destroy_stream(StreamId stream) override;
  Result<void> synchronise(StreamId stream) override;
  Result<EventId> create_event() override;
  void destroy_event(EventId event) override;
  Result<void> record(EventId event, StreamId stream) override;
  Result<void> wait(StreamId stream, EventId event) override;
  Result<bool> has_happened(EventId event) override;
  Result<void> synchronise(EventId event) override;
  Result<void> copy_to_device(DeviceBytes to, std::span<const std::byte> from,
                              StreamId stream) override;
  Result<void> copy_to_host(std::span<std::byte> to, ConstDeviceBytes from,
                            StreamId stream) override;
  Result<void> launch(const KernelLaunch& launch, std::initializer_list<KernelArgument> arguments,
                      StreamId stream) override;
  Result<void> begin_graph(StreamId stream) override;
  Result<GraphId> end_graph(StreamId stream) override;
  void destroy_graph(GraphId graph) override;
  Result<void> launch_graph(GraphId graph, StreamId stream) override;
  std::optional<Error> take_pending_error() override;

 private:
  // Work that a graph queues, and the memory that it is to find then.
  struct Recorded {
    std::vector<AddressRange> uses;
    std::vector<ConstDeviceBytes> memory;
    std::function<bool()> run;
  };

  // What lies at a run of device addresses.
  struct Region {
    AlignedVector<std::byte> owned;  // empty: a view of registered memory
    std::span<std::byte> host;
  };

  // The private functions are called with mutex_ held.
  Result<void> begin(DriverCall call);
  bool is_refused(DriverCall call) const;
  template <class T>
  Result<T> end(Result<T> result);
  bool is_taken_back(DriverCall call, size_t& n_kept);
  uint64_t new_addresses(size_t bytes);
  std::byte* host_of(ConstDeviceBytes memory) const;
  Result<std::byte*> find(ConstDeviceBytes memory, std::string_view action) const;
  Result<void> check_host_end(std::span<const std::byte> host) const;
  void queue(StreamId stream, Recorded work);
  void queue_copy(StreamId stream, std::byte* to, const std::byte* from, size_t bytes,
                  ConstDeviceBytes device, std::span<const std::byte> host);
  Result<FakeKernelCall> resolve(const KernelLaunch& launch,
                                 std::initializer_list<KernelArgument> arguments) const;
  size_t pooled_bytes() const;  // that are no registrations

  const FakeDriverOptions options_;
  mutable std::mutex mutex_;
  FakePins pins_;
  FakeWork work_;
  std::map<std::string, FakeKernel, std::less<>> kernels_;
  std::map<uint64_t, Region> regions_;                    // by their first address
  std::map<StreamId, std::vector<Recorded>> recordings_;  // that have not ended
  std::map<GraphId, std::vector<Recorded>> graphs_;
  uint32_t last_graph_ = 0;
  size_t n_kept_graphs_ = 0;
  std::map<std::thread::id, Error> pending_errors_;
  std::array<int64_t, kDriverCallCount> n_calls_ = {};
  std::vector<PinCall> pin_calls_;
  uint64_t next_address_;
  size_t device_bytes_used_ = 0;
  // What a script refused to take back.
  std::set<const std::byte*> kept_pins_;
  size_t n_kept_memory_ = 0;
  size_t n_kept_streams_ = 0;
  size_t n_kept_events_ = 0;
};

}  // namespace penstock
