// The driver of one NVIDIA GPU, by its own library.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/result.h"
#include "cuda/cuda_library.h"
#include "cuda/driver.h"

namespace penstock {

// Works in the device's primary context, which all users of a process share. This library's calls
// leave no error pending, but one that a kernel made (a wild address) ends the context: every call
// then reports it.
class NvidiaDriver final : public Driver {
 public:
  static Result<std::unique_ptr<NvidiaDriver>> open(std::shared_ptr<const CudaLibrary> library,
                                                    const CudaDevice& device,
                                                    Log log = Log::none());
  ~NvidiaDriver() override;
  NvidiaDriver(const NvidiaDriver&) = delete;
  NvidiaDriver& operator=(const NvidiaDriver&) = delete;

  // Makes the kernels of a fatbin, a cubin or a PTX text (which ends in a 0) known to launch().
  Result<void> load_module(std::span<const std::byte> image);

  DeviceId device() const override { return static_cast<DeviceId>(device_.ordinal); }
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
  std::optional<Error> take_pending_error() override { return std::nullopt; }

 private:
  // What the library calls a stream or an event, by our name for it.
  template <class Handle, class Id>
  class Names {
   public:
    Id add(Handle handle) {
      const std::scoped_lock lock(mutex_);
      handles_.emplace(++last_, handle);
      return static_cast<Id>(last_);
    }
    Handle of(Id id) const {
      const std::scoped_lock lock(mutex_);
      const auto found = handles_.find(static_cast<uint32_t>(id));
      PENSTOCK_CHECK(found != handles_.end(), "a stream or an event that is not there");
      return found->second;
    }
    Handle take(Id id) {
      const Handle handle = of(id);
      const std::scoped_lock lock(mutex_);
      handles_.erase(static_cast<uint32_t>(id));
      return handle;
    }

   private:
    mutable std::mutex mutex_;
    std::unordered_map<uint32_t, Handle> handles_;
    uint32_t last_ = 0;
  };

  NvidiaDriver(std::shared_ptr<const CudaLibrary> library, const CudaDevice& device,
               CudaApi::Device handle, CudaApi::Context context, Log log);
  const CudaApi& api() const { return library_->api(); }
  // Calls f() with the context current, which belongs to a thread. `attempted` says what for: a
  // text, or a function that makes it, which is called after a failure only.
  template <class Attempted, class F>
  Result<void> call(const Attempted& attempted, F f) const;
  template <class F>
  void give_back(std::string_view attempted, F f) const;
  Result<CudaApi::FunctionHandle> kernel(std::string_view name);

  const std::shared_ptr<const CudaLibrary> library_;
  const CudaDevice device_;
  const CudaApi::Device handle_;
  const CudaApi::Context context_;
  const Log log_;
  Names<CudaApi::StreamHandle, StreamId> streams_;
  Names<CudaApi::EventHandle, EventId> events_;
  Names<CudaApi::GraphExecHandle, GraphId> graphs_;
  std::mutex kernels_mutex_;
  std::vector<CudaApi::ModuleHandle> modules_;
  std::map<std::string, CudaApi::FunctionHandle, std::less<>> kernels_;  // those looked up so far
};

}  // namespace penstock
