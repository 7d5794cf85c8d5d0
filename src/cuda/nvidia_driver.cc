#include "cuda/nvidia_driver.h"

#include <type_traits>
#include <utility>

#include "base/check.h"

namespace penstock {
namespace {

constexpr CudaApi::Status kSuccess = 0;
constexpr CudaApi::Status kNotReady = 600;        // of an event: not yet
constexpr CudaApi::Status kKernelNotFound = 500;  // in one module; another may have it

constexpr unsigned int kRegisterPortable = 1;   // for every context,
constexpr unsigned int kRegisterDeviceMap = 2;  // and kernels may reach it
constexpr unsigned int kStreamNonBlocking = 1;  // not ordered with the default stream
constexpr unsigned int kEventNoTiming = 2;
constexpr int kCaptureThreadLocal = 1;  // other threads may call what a recording forbids

uint64_t number_of(DeviceAddress address) { return static_cast<uint64_t>(address); }

}  // namespace

Result<std::unique_ptr<NvidiaDriver>> NvidiaDriver::open(std::shared_ptr<const CudaLibrary> library,
                                                         const CudaDevice& device, Log log) {
  const std::string attempted = fmt::format("use GPU {} ({})", device.ordinal, device.name);
  CudaApi::Device handle = 0;
  PENSTOCK_TRY(library->checked(library->api().device(&handle, device.ordinal), attempted));
  CudaApi::Context context = nullptr;
  PENSTOCK_TRY(library->checked(library->api().retain_context(&context, handle), attempted));
  return std::unique_ptr<NvidiaDriver>(
      new NvidiaDriver(std::move(library), device, handle, context, std::move(log)));
}

NvidiaDriver::NvidiaDriver(std::shared_ptr<const CudaLibrary> library, const CudaDevice& device,
                           CudaApi::Device handle, CudaApi::Context context, Log log)
    : library_(std::move(library)),
      device_(device),
      handle_(handle),
      context_(context),
      log_(std::move(log)) {}

NvidiaDriver::~NvidiaDriver() {
  for (const CudaApi::ModuleHandle module : modules_) {
    give_back("unload a module", [&] { return api().unload_module(module); });
  }
  give_back("release the GPU", [&] { return api().release_context(handle_); });
}

template <class Attempted, class F>
Result<void> NvidiaDriver::call(const Attempted& attempted, F f) const {
  CudaApi::Status status = api().set_context(context_);
  if (status == kSuccess) status = f();
  if (status == kSuccess) return {};
  if constexpr (std::is_invocable_v<Attempted>) {
    return library_->checked(status, attempted());
  } else {
    return library_->checked(status, attempted);
  }
}

template <class F>
void NvidiaDriver::give_back(std::string_view attempted, F f) const {
  if (const auto done = call(attempted, f); !done) {
    log_.warn("GPU {}: {}", device_.ordinal, done.error().text());
  }
}

Result<void> NvidiaDriver::load_module(std::span<const std::byte> image) {
  CudaApi::ModuleHandle module = nullptr;
  PENSTOCK_TRY(call(fmt::format("load kernels onto GPU {}", device_.ordinal),
                    [&] { return api().load_module(&module, image.data()); }));
  const std::scoped_lock lock(kernels_mutex_);
  modules_.push_back(module);
  return {};
}

Result<DeviceMemoryInfo> NvidiaDriver::memory_info() {
  DeviceMemoryInfo info;
  PENSTOCK_TRY(call("ask how much GPU memory is free",
                    [&] { return api().memory_info(&info.free_bytes, &info.total_bytes); }));
  return info;
}

Result<DeviceBytes> NvidiaDriver::allocate(size_t bytes) {
  CudaApi::Address address = 0;
  PENSTOCK_TRY(call(fmt::format("allocate {} bytes of GPU memory", bytes),
                    [&] { return api().allocate(&address, bytes); }));
  PENSTOCK_CHECK(address % kDeviceAlignment == 0, "the driver aligns less than is promised");
  return DeviceBytes(device(), static_cast<DeviceAddress>(address), bytes);
}

void NvidiaDriver::free(DeviceBytes memory) {
  give_back("free GPU memory", [&] { return api().free(number_of(memory.address())); });
}

Result<void> NvidiaDriver::register_host(std::span<std::byte> range) {
  return call(fmt::format("page-lock {} bytes for the GPU", range.size()), [&] {
    return api().register_host(range.data(), range.size(), kRegisterPortable | kRegisterDeviceMap);
  });
}

Result<void> NvidiaDriver::unregister_host(const std::byte* begin) {
  return call("give page-locked memory back",
              [&] { return api().unregister_host(const_cast<std::byte*>(begin)); });
}

Result<DeviceBytes> NvidiaDriver::device_view(std::span<std::byte> range) {
  CudaApi::Address address = 0;
  PENSTOCK_TRY(call("reach page-locked memory from the GPU",
                    [&] { return api().device_view(&address, range.data(), 0); }));
  return DeviceBytes(device(), static_cast<DeviceAddress>(address), range.size());
}

Result<StreamId> NvidiaDriver::create_stream() {
  CudaApi::StreamHandle stream = nullptr;
  PENSTOCK_TRY(
      call("create a stream", [&] { return api().create_stream(&stream, kStreamNonBlocking); }));
  return streams_.add(stream);
}

void NvidiaDriver::destroy_stream(StreamId stream) {
  give_back("destroy a stream", [&] { return api().destroy_stream(streams_.take(stream)); });
}

Result<void> NvidiaDriver::synchronise(StreamId stream) {
  return call("wait for a stream", [&] { return api().synchronise_stream(streams_.of(stream)); });
}

Result<EventId> NvidiaDriver::create_event() {
  CudaApi::EventHandle event = nullptr;
  PENSTOCK_TRY(call("create an event", [&] { return api().create_event(&event, kEventNoTiming); }));
  return events_.add(event);
}

void NvidiaDriver::destroy_event(EventId event) {
  give_back("destroy an event", [&] { return api().destroy_event(events_.take(event)); });
}

Result<void> NvidiaDriver::record(EventId event, StreamId stream) {
  return call("record an event",
              [&] { return api().record(events_.of(event), streams_.of(stream)); });
}

Result<void> NvidiaDriver::wait(StreamId stream, EventId event) {
  return call("let a stream wait for an event",
              [&] { return api().wait(streams_.of(stream), events_.of(event), 0); });
}

Result<bool> NvidiaDriver::has_happened(EventId event) {
  bool has_happened = true;
  PENSTOCK_TRY(call("ask for an event", [&] {
    const CudaApi::Status status = api().query_event(events_.of(event));
    has_happened = status != kNotReady;
    return has_happened ? status : kSuccess;
  }));
  return has_happened;
}

Result<void> NvidiaDriver::synchronise(EventId event) {
  return call("wait for an event", [&] { return api().synchronise_event(events_.of(event)); });
}

Result<void> NvidiaDriver::copy_to_device(DeviceBytes to, std::span<const std::byte> from,
                                          StreamId stream) {
  PENSTOCK_CHECK(to.size() == from.size(), "a copy between spans of two sizes");
  return call([&] { return fmt::format("copy {} bytes to the GPU", from.size()); },
              [&] {
                return api().copy_to_device(number_of(to.address()), from.data(), from.size(),
                                            streams_.of(stream));
              });
}

Result<void> NvidiaDriver::copy_to_host(std::span<std::byte> to, ConstDeviceBytes from,
                                        StreamId stream) {
  PENSTOCK_CHECK(to.size() == from.size(), "a copy between spans of two sizes");
  return call([&] { return fmt::format("copy {} bytes from the GPU", from.size()); },
              [&] {
                return api().copy_to_host(to.data(), number_of(from.address()), from.size(),
                                          streams_.of(stream));
              });
}

Result<CudaApi::FunctionHandle> NvidiaDriver::kernel(std::string_view name) {
  const std::scoped_lock lock(kernels_mutex_);
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second;
  const std::string text(name);
  for (const CudaApi::ModuleHandle module : modules_) {
    CudaApi::FunctionHandle function = nullptr;
    bool is_there = false;
    PENSTOCK_TRY(call(fmt::format("find the kernel {}", name), [&] {
      const CudaApi::Status status = api().find_function(&function, module, text.c_str());
      is_there = status != kKernelNotFound;
      return is_there ? status : kSuccess;
    }));
    if (!is_there) continue;
    kernels_.emplace(text, function);
    return function;
  }
  return fail(ErrorKind::kNotFound, "no module on GPU {} has a kernel {}", device_.ordinal, name);
}

Result<void> NvidiaDriver::launch(const KernelLaunch& launch,
                                  std::initializer_list<KernelArgument> arguments,
                                  StreamId stream) {
  PENSTOCK_ASSIGN(const CudaApi::FunctionHandle function, kernel(launch.kernel));
  std::vector<void*> values;
  for (const KernelArgument& argument : arguments) {
    values.push_back(const_cast<std::byte*>(argument.bytes().data()));
  }
  const auto& [x, y, z] = launch.grid;
  const auto& [threads_x, threads_y, threads_z] = launch.thread_block;
  // Earlier GPUs cannot begin early, and their kernels do not wait.
  constexpr int kFirstThatOverlaps = 9;
  CudaApi::LaunchAttribute overlaps = {
      .id = CudaApi::LaunchAttribute::kProgrammaticStreamSerialization, .value = {1}};
  const CudaApi::LaunchConfig config = {
      .grid = {x, y, z},
      .block = {threads_x, threads_y, threads_z},
      .shared_bytes = launch.shared_bytes,
      .stream = streams_.of(stream),
      .attributes = &overlaps,
      .n_attributes = launch.waits_itself && device_.compute_major >= kFirstThatOverlaps ? 1U : 0U};
  return call([&] { return fmt::format("launch the kernel {}", launch.kernel); },
              [&] { return api().launch(&config, function, values.data(), nullptr); });
}

Result<void> NvidiaDriver::begin_graph(StreamId stream) {
  return call("record a graph",
              [&] { return api().begin_capture(streams_.of(stream), kCaptureThreadLocal); });
}

Result<GraphId> NvidiaDriver::end_graph(StreamId stream) {
  CudaApi::GraphHandle graph = nullptr;
  PENSTOCK_TRY(call("end the recording of a graph",
                    [&] { return api().end_capture(streams_.of(stream), &graph); }));
  CudaApi::GraphExecHandle exec = nullptr;
  const Result<void> made =
      call("make a graph ready", [&] { return api().instantiate_graph(&exec, graph, 0); });
  give_back("destroy a recording", [&] { return api().destroy_graph(graph); });
  PENSTOCK_TRY(made);
  return graphs_.add(exec);
}

void NvidiaDriver::destroy_graph(GraphId graph) {
  give_back("destroy a graph", [&] { return api().destroy_graph_exec(graphs_.take(graph)); });
}

Result<void> NvidiaDriver::launch_graph(GraphId graph, StreamId stream) {
  return call("launch a graph",
              [&] { return api().launch_graph(graphs_.of(graph), streams_.of(stream)); });
}

}  // namespace penstock
