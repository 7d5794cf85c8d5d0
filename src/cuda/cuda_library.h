// NVIDIA's driver library, looked for at run time: the functions of its C interface that Penstock
// calls, by our own declarations, and the GPUs that it shows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/shared_library.h"

namespace penstock {

// As cuda.h has it since version 12.0; the comments name its types and constants. Every function
// returns a CUresult.
struct CudaApi {
  using Status = int;                             // CUresult
  using Device = int;                             // CUdevice
  using Address = uint64_t;                       // CUdeviceptr
  using Context = struct CudaContext*;            // CUcontext
  using StreamHandle = struct CudaStream*;        // CUstream
  using EventHandle = struct CudaEvent*;          // CUevent
  using ModuleHandle = struct CudaModule*;        // CUmodule
  using FunctionHandle = struct CudaFunction*;    // CUfunction
  using GraphHandle = struct CudaGraph*;          // CUgraph
  using GraphExecHandle = struct CudaGraphExec*;  // CUgraphExec
  struct Uuid {
    std::array<uint8_t, 16> bytes = {};
  };

  struct LaunchAttribute {  // CUlaunchAttribute
    static constexpr int kProgrammaticStreamSerialization = 6;
    int id = 0;
    alignas(8) std::array<int, 16> value = {};
  };
  struct LaunchConfig {  // CUlaunchConfig
    std::array<unsigned int, 3> grid = {1, 1, 1};
    std::array<unsigned int, 3> block = {1, 1, 1};
    unsigned int shared_bytes = 0;
    StreamHandle stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned int n_attributes = 0;
  };

  Status (*init)(unsigned int flags) = nullptr;
  Status (*driver_version)(int* version) = nullptr;  // 1000 major + 10 minor
  Status (*error_name)(Status status, const char** name) = nullptr;
  Status (*error_text)(Status status, const char** text) = nullptr;
  Status (*device_count)(int* count) = nullptr;
  Status (*device)(Device* device, int ordinal) = nullptr;
  Status (*device_name)(char* name, int size, Device device) = nullptr;
  Status (*device_uuid)(Uuid* uuid, Device device) = nullptr;
  Status (*device_attribute)(int* value, int attribute, Device device) = nullptr;
  Status (*device_bytes)(size_t* bytes, Device device) = nullptr;
  Status (*retain_context)(Context* context, Device device) = nullptr;
  Status (*release_context)(Device device) = nullptr;
  Status (*set_context)(Context context) = nullptr;
  Status (*memory_info)(size_t* free, size_t* total) = nullptr;
  Status (*allocate)(Address* address, size_t bytes) = nullptr;
  Status (*free)(Address address) = nullptr;
  Status (*register_host)(void* begin, size_t bytes, unsigned int flags) = nullptr;
  Status (*unregister_host)(void* begin) = nullptr;
  Status (*device_view)(Address* address, void* host, unsigned int flags) = nullptr;
  Status (*create_stream)(StreamHandle* stream, unsigned int flags) = nullptr;
  Status (*destroy_stream)(StreamHandle stream) = nullptr;
  Status (*synchronise_stream)(StreamHandle stream) = nullptr;
  Status (*create_event)(EventHandle* event, unsigned int flags) = nullptr;
  Status (*destroy_event)(EventHandle event) = nullptr;
  Status (*record)(EventHandle event, StreamHandle stream) = nullptr;
  Status (*wait)(StreamHandle stream, EventHandle event, unsigned int flags) = nullptr;
  Status (*query_event)(EventHandle event) = nullptr;
  Status (*synchronise_event)(EventHandle event) = nullptr;
  Status (*copy_to_device)(Address to, const void* from, size_t bytes,
                           StreamHandle stream) = nullptr;
  Status (*copy_to_host)(void* to, Address from, size_t bytes, StreamHandle stream) = nullptr;
  Status (*load_module)(ModuleHandle* module, const void* image) = nullptr;
  Status (*unload_module)(ModuleHandle module) = nullptr;
  Status (*find_function)(FunctionHandle* function, ModuleHandle module,
                          const char* name) = nullptr;
  Status (*launch)(const LaunchConfig* config, FunctionHandle function, void** arguments,
                   void** extra) = nullptr;
  Status (*begin_capture)(StreamHandle stream, int mode) = nullptr;
  Status (*end_capture)(StreamHandle stream, GraphHandle* graph) = nullptr;
  Status (*instantiate_graph)(GraphExecHandle* exec, GraphHandle graph,
                              unsigned long long flags) = nullptr;
  Status (*launch_graph)(GraphExecHandle exec, StreamHandle stream) = nullptr;
  Status (*destroy_graph)(GraphHandle graph) = nullptr;
  Status (*destroy_graph_exec)(GraphExecHandle exec) = nullptr;
};

struct CudaDevice {
  int ordinal = 0;  // as CUDA_VISIBLE_DEVICES leaves and orders them
  std::string name = {};
  std::string uuid = {};  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi prints it
  int compute_major = 0;
  int compute_minor = 0;
  int n_multiprocessors = 0;
  size_t vram_bytes = 0;
};

// The library, ready for use, and kept as long as anybody has it. Thread-safe.
class CudaLibrary {
 public:
  // kNotFound where there is none, as on a machine with no NVIDIA GPU. kUnsupported where it is too
  // old; kUnavailable where it does not start, which says why.
  static Result<std::shared_ptr<const CudaLibrary>> load();

  const CudaApi& api() const { return api_; }
  int version() const { return version_; }  // 1000 major + 10 minor

  // May be none.
  Result<std::vector<CudaDevice>> devices() const;

  // What a call returned, as an error that says what was attempted.
  Result<void> checked(CudaApi::Status status, std::string_view attempted) const;

 private:
  explicit CudaLibrary(SharedLibrary library) : library_(std::move(library)) {}
  bool bind();
  Result<CudaDevice> describe(int ordinal) const;

  SharedLibrary library_;
  CudaApi api_;
  int version_ = 0;
};

// The device that `wanted` names: its ordinal, or its UUID or a beginning of that which is no
// other's; the first if empty. An error lists what there is.
Result<CudaDevice> choose_device(const std::vector<CudaDevice>& devices, std::string_view wanted);

}  // namespace penstock
