#include "cuda/fake_driver.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/integers.h"

namespace penstock {
namespace {

// No address of a process on x86-64: whoever takes one for a pointer crashes at its first use.
constexpr uint64_t kFirstAddress = 0x00DE'0000'0000'0000;
// Between any two runs of device addresses, so that what reaches over an end meets nothing.
constexpr uint64_t kGapBytes = 64 * kKiB;
constexpr std::byte kNeverWritten{0xA5};
constexpr uint64_t kMaxBlockThreads = 1024;

constexpr std::array<std::string_view, kDriverCallCount> kCallNames = {
    "memory_info",    "allocate",        "free",
    "register_host",  "unregister_host", "device_view",
    "create_stream",  "destroy_stream",  "synchronise(stream)",
    "create_event",   "destroy_event",   "record",
    "wait",           "has_happened",    "synchronise(event)",
    "copy_to_device", "copy_to_host",    "launch",
    "begin_graph",    "end_graph",       "destroy_graph",
    "launch_graph"};

uint64_t volume(Dim3 dim) { return uint64_t{dim.x} * dim.y * dim.z; }

}  // namespace

FakeDriver::FakeDriver(FakeDriverOptions options)
    : options_(std::move(options)),
      pins_(options_.pins),
      work_(options_.seed, options_.eagerness),
      next_address_(kFirstAddress) {}

FakeDriver::~FakeDriver() {
  PENSTOCK_CHECK(pins_.count() == kept_pins_.size(), "host memory is still registered");
  const auto is_owned = [](const auto& region) { return !region.second.owned.empty(); };
  const auto n_owned = static_cast<size_t>(std::ranges::count_if(regions_, is_owned));
  PENSTOCK_CHECK(n_owned == n_kept_memory_, "device memory was not freed");
  PENSTOCK_CHECK(work_.n_streams() == n_kept_streams_, "a stream was not destroyed");
  PENSTOCK_CHECK(work_.n_events() == n_kept_events_, "an event was not destroyed");
  PENSTOCK_CHECK(recordings_.empty(), "a recording did not end");
  PENSTOCK_CHECK(graphs_.size() == n_kept_graphs_, "a graph was not destroyed");
  PENSTOCK_CHECK(pending_errors_.empty(), "an error was left pending");
}

void FakeDriver::add_kernel(std::string name, FakeKernel kernel) {
  const std::lock_guard lock(mutex_);
  kernels_[std::move(name)] = std::move(kernel);
}

void FakeDriver::set_pin_total(size_t bytes) {
  const std::lock_guard lock(mutex_);
  pins_.set_total(bytes);
}

int64_t FakeDriver::n_calls(DriverCall call) const {
  const std::lock_guard lock(mutex_);
  return n_calls_[static_cast<size_t>(call)];
}

int64_t FakeDriver::n_calls() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(n_calls_.begin(), n_calls_.end(), int64_t{0});
}

size_t FakeDriver::registered_bytes() const {
  const std::lock_guard lock(mutex_);
  return pins_.bytes();
}

size_t FakeDriver::n_registrations() const {
  const std::lock_guard lock(mutex_);
  return pins_.count();
}

bool FakeDriver::is_registered(std::span<const std::byte> range) const {
  const std::lock_guard lock(mutex_);
  return pins_.holds(range_of(range));
}

size_t FakeDriver::device_bytes_used() const {
  const std::lock_guard lock(mutex_);
  return device_bytes_used_;
}

std::vector<PinCall> FakeDriver::pin_calls() const {
  const std::lock_guard lock(mutex_);
  return pin_calls_;
}

Result<DeviceMemoryInfo> FakeDriver::memory_info() {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kMemoryInfo));
  return DeviceMemoryInfo{.free_bytes = options_.device_bytes - device_bytes_used_,
                          .total_bytes = options_.device_bytes};
}

Result<DeviceBytes> FakeDriver::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kAllocate));
  const size_t free_bytes = options_.device_bytes - device_bytes_used_;
  const size_t taken_bytes = round_up(std::min(bytes, options_.device_bytes + 1), kDeviceAlignment);
  if (bytes == 0 || taken_bytes > free_bytes ||
      (options_.device_memory_is_pooled && !pins_.has_room(pooled_bytes(), taken_bytes))) {
    return end<DeviceBytes>(fail(ErrorKind::kExhausted,
                                 "cannot allocate {} of device memory: {} are free",
                                 format_bytes(bytes), format_bytes(free_bytes)));
  }
  const uint64_t address = new_addresses(bytes);
  Region& region = regions_[address];
  region.owned.resize(bytes, kNeverWritten);
  region.host = region.owned;
  device_bytes_used_ += taken_bytes;
  return DeviceBytes(device(), DeviceAddress{address}, bytes);
}

void FakeDriver::free(DeviceBytes memory) {
  const std::lock_guard lock(mutex_);
  if (!is_taken_back(DriverCall::kFree, n_kept_memory_)) return;
  const auto region = regions_.find(static_cast<uint64_t>(memory.address()));
  PENSTOCK_CHECK(region != regions_.end() && !region->second.owned.empty(),
                 "no device memory begins at this address");
  PENSTOCK_CHECK(!work_.is_used(range_of(memory)), "device memory freed that queued work uses");
  device_bytes_used_ -= round_up(region->second.owned.size(), kDeviceAlignment);
  regions_.erase(region);
}

Result<void> FakeDriver::register_host(std::span<std::byte> range) {
  const std::lock_guard lock(mutex_);
  PinCall& call = pin_calls_.emplace_back(
      PinCall{.begin = range.data(), .bytes = range.size(), .is_register = true});
  PENSTOCK_TRY(begin(DriverCall::kRegister));
  PENSTOCK_TRY(end(pins_.add(range, pooled_bytes())));
  call.was_granted = true;
  regions_[new_addresses(range.size())].host = range;
  return {};
}

Result<void> FakeDriver::unregister_host(const std::byte* begin_address) {
  const std::lock_guard lock(mutex_);
  PinCall& call = pin_calls_.emplace_back(PinCall{.begin = begin_address});
  if (auto begun = begin(DriverCall::kUnregister); !begun) {
    if (pins_.is_registered(begin_address)) kept_pins_.insert(begin_address);
    return begun;
  }
  PENSTOCK_TRY(end(pins_.remove(begin_address)));
  call.was_granted = true;
  kept_pins_.erase(begin_address);
  const auto region = std::ranges::find_if(regions_, [&](const auto& entry) {
    return entry.second.owned.empty() && entry.second.host.data() == begin_address;
  });
  PENSTOCK_CHECK(!work_.is_used(range_of(region->second.host)),
                 "host memory unregistered that queued work uses");
  const ConstDeviceBytes view(device(), DeviceAddress{region->first}, region->second.host.size());
  PENSTOCK_CHECK(!work_.is_used(range_of(view)), "host memory unregistered that a kernel uses");
  regions_.erase(region);
  return {};
}

Result<DeviceBytes> FakeDriver::device_view(std::span<std::byte> range) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kDeviceView));
  for (const auto& [address, region] : regions_) {
    if (!region.owned.empty() || !range_of(region.host).contains(range_of(range))) continue;
    const auto offset = static_cast<size_t>(range.data() - region.host.data());
    return DeviceBytes(device(), DeviceAddress{address} + offset, range.size());
  }
  return end<DeviceBytes>(fail(ErrorKind::kInvalidArgument,
                               "{} of host memory do not lie in one registered range",
                               format_bytes(range.size())));
}

Result<StreamId> FakeDriver::create_stream() {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kCreateStream));
  return work_.add_stream();
}

void FakeDriver::destroy_stream(StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (is_taken_back(DriverCall::kDestroyStream, n_kept_streams_)) work_.remove_stream(stream);
}

Result<void> FakeDriver::synchronise(StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kSynchroniseStream));
  work_.finish(stream);
  return {};
}

Result<EventId> FakeDriver::create_event() {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kCreateEvent));
  return work_.add_event();
}

void FakeDriver::destroy_event(EventId event) {
  const std::lock_guard lock(mutex_);
  if (is_taken_back(DriverCall::kDestroyEvent, n_kept_events_)) work_.remove_event(event);
}

Result<void> FakeDriver::record(EventId event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kRecord));
  work_.record(event, stream);
  return {};
}

Result<void> FakeDriver::wait(StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kWait));
  work_.wait(stream, event);
  return {};
}

Result<bool> FakeDriver::has_happened(EventId event) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kHasHappened));
  return work_.has_happened(event);
}

Result<void> FakeDriver::synchronise(EventId event) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kSynchroniseEvent));
  work_.finish(event);
  return {};
}

Result<void> FakeDriver::copy_to_device(DeviceBytes to, std::span<const std::byte> from,
                                        StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kCopyToDevice));
  PENSTOCK_CHECK(to.size() == from.size(), "a copy between spans of two sizes");
  PENSTOCK_TRY(end(check_host_end(from)));
  PENSTOCK_ASSIGN(std::byte* const device_end, end(find(to, "copy to")));
  queue_copy(stream, device_end, from.data(), from.size(), to, from);
  return {};
}

Result<void> FakeDriver::copy_to_host(std::span<std::byte> to, ConstDeviceBytes from,
                                      StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kCopyToHost));
  PENSTOCK_CHECK(to.size() == from.size(), "a copy between spans of two sizes");
  PENSTOCK_TRY(end(check_host_end(to)));
  PENSTOCK_ASSIGN(const std::byte* const device_end, end(find(from, "copy from")));
  queue_copy(stream, to.data(), device_end, to.size(), from, to);
  return {};
}

Result<void> FakeDriver::launch(const KernelLaunch& launch,
                                std::initializer_list<KernelArgument> arguments, StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kLaunch));
  PENSTOCK_ASSIGN(FakeKernelCall call, end(resolve(launch, arguments)));
  Recorded work;
  for (const KernelArgument& argument : call.arguments_) {
    if (argument.memory() && !argument.memory()->empty()) {
      work.uses.push_back(range_of(*argument.memory()));
      work.memory.push_back(*argument.memory());
    }
  }
  const FakeKernel& kernel = kernels_.find(launch.kernel)->second;
  work.run = [&kernel, call = std::move(call)] {
    call.is_waiting_ = false;
    kernel(call);
    return !call.is_waiting_;
  };
  queue(stream, std::move(work));
  return {};
}

// Runs it in its turn, or records it.
void FakeDriver::queue(StreamId stream, Recorded work) {
  if (const auto recording = recordings_.find(stream); recording != recordings_.end()) {
    recording->second.push_back(std::move(work));
  } else {
    work_.queue(stream, std::move(work.uses), std::move(work.run));
  }
}

Result<void> FakeDriver::begin_graph(StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kBeginGraph));
  PENSTOCK_CHECK(recordings_.emplace(stream, std::vector<Recorded>()).second,
                 "a recording within a recording");
  return {};
}

Result<GraphId> FakeDriver::end_graph(StreamId stream) {
  const std::lock_guard lock(mutex_);
  auto recording = recordings_.extract(stream);
  PENSTOCK_CHECK(!recording.empty(), "a recording ends that did not begin");
  PENSTOCK_TRY(begin(DriverCall::kEndGraph));
  const GraphId id{++last_graph_};
  graphs_[id] = std::move(recording.mapped());
  return id;
}

void FakeDriver::destroy_graph(GraphId graph) {
  const std::lock_guard lock(mutex_);
  if (!is_taken_back(DriverCall::kDestroyGraph, n_kept_graphs_)) return;
  PENSTOCK_CHECK(graphs_.erase(graph) == 1, "there is no such graph");
}

Result<void> FakeDriver::launch_graph(GraphId graph, StreamId stream) {
  const std::lock_guard lock(mutex_);
  PENSTOCK_TRY(begin(DriverCall::kLaunchGraph));
  const auto found = graphs_.find(graph);
  PENSTOCK_CHECK(found != graphs_.end(), "there is no such graph");
  for (const Recorded& work : found->second) {
    for (const ConstDeviceBytes& memory : work.memory) {
      PENSTOCK_CHECK(find(memory, "run a graph on").has_value(), "a graph's memory was given back");
    }
    work_.queue(stream, work.uses, work.run);
  }
  return {};
}

std::optional<Error> FakeDriver::take_pending_error() {
  const std::lock_guard lock(mutex_);
  const auto pending = pending_errors_.extract(std::this_thread::get_id());
  if (pending.empty()) return std::nullopt;
  return pending.mapped();
}

// What every call begins with: an error, where it must not do what it is for.
Result<void> FakeDriver::begin(DriverCall call) {
  ++n_calls_[static_cast<size_t>(call)];
  const auto pending = pending_errors_.find(std::this_thread::get_id());
  if (pending != pending_errors_.end()) {
    return std::unexpected(pending->second.in("left pending by an earlier call"));
  }
  work_.run_some();
  if (!is_refused(call)) return {};
  return end<void>(fail(ErrorKind::kExhausted, "{} is refused, as the script says",
                        kCallNames[static_cast<size_t>(call)]));
}

bool FakeDriver::is_refused(DriverCall call) const {
  const int64_t n_all = std::accumulate(n_calls_.begin(), n_calls_.end(), int64_t{0});
  return std::ranges::any_of(options_.refusals, [&](const FakeRefusal& refusal) {
    if (refusal.call && *refusal.call != call) return false;
    const int64_t n = refusal.call ? n_calls_[static_cast<size_t>(call)] : n_all;
    return n >= refusal.first && n - refusal.first < refusal.count;
  });
}

// A call's result on its way to the caller; an error may stay behind.
template <class T>
Result<T> FakeDriver::end(Result<T> result) {
  if (!result && options_.leaves_errors_pending) {
    pending_errors_.insert_or_assign(std::this_thread::get_id(), result.error());
  }
  return result;
}

// Whether a call that gives something back may go on. Where a script refuses, `n_kept` counts it;
// an error that was pending is the caller's fault, and what stays behind shows at the end.
bool FakeDriver::is_taken_back(DriverCall call, size_t& n_kept) {
  const bool was_pending = pending_errors_.contains(std::this_thread::get_id());
  const auto begun = begin(call);
  if (begun) return true;
  options_.log.warn("{}", begun.error().text());
  if (!was_pending) {
    pending_errors_.erase(std::this_thread::get_id());
    ++n_kept;
  }
  return false;
}

uint64_t FakeDriver::new_addresses(size_t bytes) {
  return std::exchange(next_address_,
                       round_up(next_address_ + bytes + kGapBytes, uint64_t{kDeviceAlignment}));
}

// Null where `memory` does not lie in one allocation or one registered range.
std::byte* FakeDriver::host_of(ConstDeviceBytes memory) const {
  auto region = regions_.upper_bound(static_cast<uint64_t>(memory.address()));
  if (region == regions_.begin()) return nullptr;
  --region;
  const uint64_t offset = static_cast<uint64_t>(memory.address()) - region->first;
  const size_t size = region->second.host.size();
  if (offset > size || memory.size() > size - offset) return nullptr;
  return region->second.host.data() + offset;
}

Result<std::byte*> FakeDriver::find(ConstDeviceBytes memory, std::string_view action) const {
  std::byte* const host = host_of(memory);
  if (host != nullptr) return host;
  return fail(ErrorKind::kInvalidArgument, "cannot {} {} at device address {:#x}: not allocated",
              action, format_bytes(memory.size()), static_cast<uint64_t>(memory.address()));
}

Result<void> FakeDriver::check_host_end(std::span<const std::byte> host) const {
  if (!pins_.touches(range_of(host)) || pins_.holds(range_of(host))) return {};
  return fail(ErrorKind::kInvalidArgument,
              "cannot copy {}: its host memory reaches over the edge of a registered range",
              format_bytes(host.size()));
}

void FakeDriver::queue_copy(StreamId stream, std::byte* to, const std::byte* from, size_t bytes,
                            ConstDeviceBytes device, std::span<const std::byte> host) {
  queue(stream, {.uses = {range_of(device), range_of(host)}, .memory = {device}, .run = [=] {
                   std::memmove(to, from, bytes);
                   return true;
                 }});
  if (recordings_.contains(stream)) {
    PENSTOCK_CHECK(pins_.holds(range_of(host)),
                   "a graph copies host memory that is not registered");
    return;
  }
  // A driver copies pageable memory through its own buffers, and may do so at once.
  if (!pins_.holds(range_of(host)) && work_.toss()) work_.finish(stream);
}

Result<FakeKernelCall> FakeDriver::resolve(const KernelLaunch& launch,
                                           std::initializer_list<KernelArgument> arguments) const {
  const auto kernel = kernels_.find(launch.kernel);
  if (kernel == kernels_.end()) {
    return fail(ErrorKind::kNotFound, "there is no kernel called {}", launch.kernel);
  }
  const uint64_t n_threads = volume(launch.thread_block);
  if (volume(launch.grid) == 0 || n_threads == 0 || n_threads > kMaxBlockThreads) {
    return fail(ErrorKind::kInvalidArgument, "cannot launch {}: {} blocks of {} threads",
                launch.kernel, volume(launch.grid), n_threads);
  }
  FakeKernelCall call;
  call.launch_ = launch;
  call.launch_.kernel = kernel->first;  // which lives as long as the driver
  for (const KernelArgument& argument : arguments) {
    std::byte* memory = nullptr;
    if (argument.memory() && !argument.memory()->empty()) {
      PENSTOCK_ASSIGN(memory, find(*argument.memory(), "launch a kernel on"));
    }
    call.arguments_.push_back(argument);
    call.memory_.push_back(memory);
  }
  return call;
}

size_t FakeDriver::pooled_bytes() const {
  return options_.context_bytes + (options_.device_memory_is_pooled ? device_bytes_used_ : 0);
}

}  // namespace penstock
