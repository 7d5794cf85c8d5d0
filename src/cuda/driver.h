// What host code asks of one GPU and its driver, as an interface: device memory, page-locked host
// memory, copies, kernels, and the streams and events that order them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "base/result.h"
#include "cuda/device_span.h"

namespace penstock {

enum class StreamId : uint32_t {};  // work queued on one stream runs in order
enum class EventId : uint32_t {};   // a point in a stream's work that others can wait for
enum class GraphId : uint32_t {
};  // work that was recorded, to be queued as a whole again and again

inline constexpr size_t kDeviceAlignment = 256;  // of each allocation's first byte

struct DeviceMemoryInfo {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

struct KernelLaunch {
  std::string_view kernel;  // its name in the loaded modules
  Dim3 grid = {};           // in thread blocks
  Dim3 thread_block = {};   // in threads
  uint32_t shared_bytes = 0;
  // It may begin before what was queued before it on its stream has ended: it waits for that itself
  // (griddepcontrol.wait), and does before that only what nothing else has a part in.
  bool waits_itself = false;
};

// One parameter of a kernel. A DeviceSpan arrives there as its address, an empty one as that or
// null: a size that the kernel needs is a parameter of its own. Everything else arrives as it is.
class KernelArgument {
 public:
  static constexpr size_t kMaxBytes = 64;

  template <class T>
  KernelArgument(DeviceSpan<T> span)  // implicit: call sites list what the kernel takes
      : KernelArgument(span.address()) {
    memory_ = DeviceSpan<const T>(span).template as<const std::byte>();
    object_bytes_ = sizeof(T);
    is_writable_ = !std::is_const_v<T>;
  }
  template <class T>
    requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
             !std::same_as<T, std::nullptr_t> && sizeof(T) <= kMaxBytes)
  KernelArgument(const T& value) : n_bytes_(sizeof(T)) {
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }

  // What the kernel gets.
  std::span<const std::byte> bytes() const { return std::span(bytes_).first(n_bytes_); }
  // Where a span is, for who wants to know what a launch touches; nothing for a value.
  const std::optional<ConstDeviceBytes>& memory() const { return memory_; }
  size_t object_bytes() const { return object_bytes_; }  // of a span's type
  bool is_writable() const { return is_writable_; }

 private:
  std::optional<ConstDeviceBytes> memory_;
  size_t object_bytes_ = 0;
  bool is_writable_ = false;
  alignas(16) std::array<std::byte, kMaxBytes> bytes_ = {};
  size_t n_bytes_ = 0;
};

// Thread-safe. Outlives all that is made with it.
//
// A call that fails may leave its error pending: the next call of the same thread, whatever it is
// for, then reports that error and does nothing. Whoever sees a call fail takes the pending error
// before going on, best through settled() below.
//
// Queued work reads and writes its memory when it runs, not when it is queued. Memory is given back
// (freed, unregistered) only when no queued work uses it.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual DeviceId device() const = 0;

  virtual Result<DeviceMemoryInfo> memory_info() = 0;
  // Not cleared. kExhausted where there is not enough.
  virtual Result<DeviceBytes> allocate(size_t bytes) = 0;
  // Nothing could be done about a refusal: the driver logs it and leaves no error pending. So for
  // streams and events.
  virtual void free(DeviceBytes memory) = 0;

  // Page-locks the OS pages of `range` for the GPU. An OS page can be registered once.
  virtual Result<void> register_host(std::span<std::byte> range) = 0;
  // `begin` is where a registered range begins. After a refusal it is still registered: its memory
  // must stay.
  virtual Result<void> unregister_host(const std::byte* begin) = 0;
  // How kernels reach what lies in one registered range.
  virtual Result<DeviceBytes> device_view(std::span<std::byte> range) = 0;

  virtual Result<StreamId> create_stream() = 0;
  virtual void destroy_stream(StreamId stream) = 0;  // its work still runs
  virtual Result<void> synchronise(StreamId stream) = 0;
  virtual Result<EventId> create_event() = 0;
  virtual void destroy_event(EventId event) = 0;
  // The event is the work queued on `stream` so far. Recorded again, it is the newer point.
  virtual Result<void> record(EventId event, StreamId stream) = 0;
  // What is queued on `stream` from here on runs after the event's last record; at once where it
  // has none.
  virtual Result<void> wait(StreamId stream, EventId event) = 0;
  virtual Result<bool> has_happened(EventId event) = 0;
  virtual Result<void> synchronise(EventId event) = 0;

  // The host's end of a copy lies in one registered range or touches none: what reaches over the
  // edge of one is refused. Where it touches none, the call may return only after the copy.
  virtual Result<void> copy_to_device(DeviceBytes to, std::span<const std::byte> from,
                                      StreamId stream) = 0;
  virtual Result<void> copy_to_host(std::span<std::byte> to, ConstDeviceBytes from,
                                    StreamId stream) = 0;
  virtual Result<void> launch(const KernelLaunch& launch,
                              std::initializer_list<KernelArgument> arguments, StreamId stream) = 0;

  // From here on what is queued on `stream` is recorded, not run; until end_graph nothing waits for
  // it. Host memory of copies is registered. After a call that fails the recording still has to
  // end.
  virtual Result<void> begin_graph(StreamId stream) = 0;
  virtual Result<GraphId> end_graph(StreamId stream) = 0;
  virtual void destroy_graph(GraphId graph) = 0;  // when it is not queued
  // Queues all of it, in its order, with the arguments it was recorded with. Its memory is still
  // there.
  virtual Result<void> launch_graph(GraphId graph, StreamId stream) = 0;

  // The error that an earlier call of this thread left pending, which is then no longer.
  virtual std::optional<Error> take_pending_error() = 0;
};

// What a call returned, with no error of it left pending.
template <class T>
Result<T> settled(Driver& driver, Result<T> result) {
  if (!result) driver.take_pending_error();
  return result;
}

}  // namespace penstock
