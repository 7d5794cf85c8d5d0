#include "cuda/cuda_library.h"

#include <charconv>

namespace penstock {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kLeastVersion =
    12000;  // the interface of cuda_library.h; drivers from 525 on have it

constexpr CudaApi::Status kSuccess = 0;
constexpr CudaApi::Status kInvalidValue = 1;
constexpr CudaApi::Status kOutOfMemory = 2;
constexpr CudaApi::Status kNoDevice = 100;
constexpr CudaApi::Status kInvalidHandle = 400;
constexpr CudaApi::Status kNotFound = 500;
constexpr CudaApi::Status kAlreadyRegistered = 712;
constexpr CudaApi::Status kNotRegistered = 713;
constexpr CudaApi::Status kNotPermitted = 800;
constexpr CudaApi::Status kNotSupported = 801;

// CUdevice_attribute
constexpr int kMultiprocessorCount = 16;
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;

ErrorKind kind_of(CudaApi::Status status) {
  switch (status) {
    case kInvalidValue:
    case kInvalidHandle:
    case kAlreadyRegistered:
    case kNotRegistered:
      return ErrorKind::kInvalidArgument;
    case kOutOfMemory:
      return ErrorKind::kExhausted;
    case kNotFound:
      return ErrorKind::kNotFound;
    case kNotPermitted:
    case kNotSupported:
      return ErrorKind::kUnsupported;
    default:
      return ErrorKind::kUnavailable;
  }
}

std::string text_of(const CudaApi::Uuid& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

std::string list_of(const std::vector<CudaDevice>& devices) {
  std::string list;
  for (const CudaDevice& device : devices) {
    list += fmt::format("{}{} {} ({})", list.empty() ? "" : ", ", device.ordinal, device.name,
                        device.uuid);
  }
  return list.empty() ? "none" : list;
}

}  // namespace

bool CudaLibrary::bind() {
  const auto find = [&](auto*& function, const char* name) {
    function =
        library_.function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
    return function != nullptr;
  };
  return find(api_.init, "cuInit") && find(api_.driver_version, "cuDriverGetVersion") &&
         find(api_.error_name, "cuGetErrorName") && find(api_.error_text, "cuGetErrorString") &&
         find(api_.device_count, "cuDeviceGetCount") && find(api_.device, "cuDeviceGet") &&
         find(api_.device_name, "cuDeviceGetName") &&
         find(api_.device_uuid, "cuDeviceGetUuid_v2") &&
         find(api_.device_attribute, "cuDeviceGetAttribute") &&
         find(api_.device_bytes, "cuDeviceTotalMem_v2") &&
         find(api_.retain_context, "cuDevicePrimaryCtxRetain") &&
         find(api_.release_context, "cuDevicePrimaryCtxRelease_v2") &&
         find(api_.set_context, "cuCtxSetCurrent") && find(api_.memory_info, "cuMemGetInfo_v2") &&
         find(api_.allocate, "cuMemAlloc_v2") && find(api_.free, "cuMemFree_v2") &&
         find(api_.register_host, "cuMemHostRegister_v2") &&
         find(api_.unregister_host, "cuMemHostUnregister") &&
         find(api_.device_view, "cuMemHostGetDevicePointer_v2") &&
         find(api_.create_stream, "cuStreamCreate") &&
         find(api_.destroy_stream, "cuStreamDestroy_v2") &&
         find(api_.synchronise_stream, "cuStreamSynchronize") &&
         find(api_.create_event, "cuEventCreate") &&
         find(api_.destroy_event, "cuEventDestroy_v2") && find(api_.record, "cuEventRecord") &&
         find(api_.wait, "cuStreamWaitEvent") && find(api_.query_event, "cuEventQuery") &&
         find(api_.synchronise_event, "cuEventSynchronize") &&
         find(api_.copy_to_device, "cuMemcpyHtoDAsync_v2") &&
         find(api_.copy_to_host, "cuMemcpyDtoHAsync_v2") &&
         find(api_.load_module, "cuModuleLoadData") && find(api_.unload_module, "cuModuleUnload") &&
         find(api_.find_function, "cuModuleGetFunction") && find(api_.launch, "cuLaunchKernelEx") &&
         find(api_.begin_capture, "cuStreamBeginCapture_v2") &&
         find(api_.end_capture, "cuStreamEndCapture") &&
         find(api_.instantiate_graph, "cuGraphInstantiateWithFlags") &&
         find(api_.launch_graph, "cuGraphLaunch") && find(api_.destroy_graph, "cuGraphDestroy") &&
         find(api_.destroy_graph_exec, "cuGraphExecDestroy");
}

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::load() {
  PENSTOCK_ASSIGN(SharedLibrary opened, SharedLibrary::open(kLibrary));
  std::shared_ptr<CudaLibrary> library(new CudaLibrary(std::move(opened)));
  const bool is_whole = library->bind();
  // What there is of the library may tell how old it is.
  if (library->api_.driver_version != nullptr) library->api_.driver_version(&library->version_);
  if (!is_whole || library->version_ < kLeastVersion) {
    return fail(ErrorKind::kUnsupported,
                "{} is of CUDA {}.{}, Penstock needs {}.{} or later: an NVIDIA driver from 525 on",
                kLibrary, library->version_ / 1000, library->version_ % 1000 / 10,
                kLeastVersion / 1000, kLeastVersion % 1000 / 10);
  }
  const CudaApi::Status status = library->api_.init(0);
  if (status != kNoDevice) PENSTOCK_TRY(library->checked(status, "start the NVIDIA driver"));
  return library;
}

Result<void> CudaLibrary::checked(CudaApi::Status status, std::string_view attempted) const {
  if (status == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (api_.error_name(status, &name) != kSuccess || name == nullptr) name = "CUDA_ERROR";
  if (api_.error_text(status, &text) != kSuccess || text == nullptr) text = "unknown error";
  return fail(kind_of(status), "cannot {}: {} ({} {})", attempted, text, name, status);
}

Result<CudaDevice> CudaLibrary::describe(int ordinal) const {
  const std::string attempted = fmt::format("ask for GPU {}", ordinal);
  CudaApi::Device handle = 0;
  PENSTOCK_TRY(checked(api_.device(&handle, ordinal), attempted));
  CudaDevice device = {.ordinal = ordinal};
  std::array<char, 256> name = {};
  PENSTOCK_TRY(
      checked(api_.device_name(name.data(), static_cast<int>(name.size()) - 1, handle), attempted));
  device.name = name.data();
  CudaApi::Uuid uuid;
  PENSTOCK_TRY(checked(api_.device_uuid(&uuid, handle), attempted));
  device.uuid = text_of(uuid);
  PENSTOCK_TRY(checked(api_.device_bytes(&device.vram_bytes, handle), attempted));
  const auto attribute = [&](int which, int& value) {
    return checked(api_.device_attribute(&value, which, handle), attempted);
  };
  PENSTOCK_TRY(attribute(kComputeMajor, device.compute_major));
  PENSTOCK_TRY(attribute(kComputeMinor, device.compute_minor));
  PENSTOCK_TRY(attribute(kMultiprocessorCount, device.n_multiprocessors));
  return device;
}

Result<std::vector<CudaDevice>> CudaLibrary::devices() const {
  int count = 0;
  const CudaApi::Status status = api_.device_count(&count);
  std::vector<CudaDevice> all;
  if (status == kNoDevice) return all;
  PENSTOCK_TRY(checked(status, "count the GPUs"));
  for (int i = 0; i < count; ++i) {
    PENSTOCK_ASSIGN(CudaDevice device, describe(i));
    all.push_back(std::move(device));
  }
  return all;
}

Result<CudaDevice> choose_device(const std::vector<CudaDevice>& devices, std::string_view wanted) {
  if (devices.empty()) return fail(ErrorKind::kNotFound, "the NVIDIA driver shows no GPU");
  if (wanted.empty()) return devices.front();
  int ordinal = -1;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), ordinal);
  const bool is_number = error == std::errc() && end == wanted.data() + wanted.size();
  std::vector<CudaDevice> found;
  for (const CudaDevice& device : devices) {
    if (is_number ? device.ordinal == ordinal : device.uuid.starts_with(wanted)) {
      found.push_back(device);
    }
  }
  if (found.size() == 1) return found.front();
  return fail(ErrorKind::kInvalidArgument, "GPU '{}' is {}; there are: {}", wanted,
              found.empty() ? "not there" : "more than one", list_of(devices));
}

}  // namespace penstock
