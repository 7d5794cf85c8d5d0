#include "cuda/nvml.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "os/shared_library.h"

namespace penstock {
namespace {

constexpr NvmlApi::Status kSuccess = 0;
constexpr NvmlApi::Status kNotSupported = 3;
constexpr NvmlApi::Status kTooSmall = 7;             // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned long long kUnknownBytes = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
constexpr size_t kTextBytes = 96;                    // the longest that the library asks for
constexpr unsigned int kMostGpusAsked = 64;
constexpr unsigned int kMostProcesses = 4096;

// Points `to` at a function that keeps its library loaded.
template <class Answer, class... Arguments>
bool bind_function(const std::shared_ptr<const SharedLibrary>& library, const char* name,
                   std::function<Answer(Arguments...)>& to) {
  auto* const found = library->function<Answer(Arguments...)>(name);
  if (found == nullptr) return false;
  to = [library, found](Arguments... arguments) { return found(arguments...); };
  return true;
}

// Between init and shutdown.
class Session {
 public:
  static Result<Session> open(const NvmlApi& api) {
    if (const auto status = api.init(); status != kSuccess) {
      return fail(ErrorKind::kUnavailable, "NVML does not start: {}", api.error_text(status));
    }
    return Session(api);
  }
  Session(Session&& other) noexcept : api_(std::exchange(other.api_, nullptr)) {}
  ~Session() {
    if (api_ != nullptr) api_->shutdown();
  }

 private:
  explicit Session(const NvmlApi& api) : api_(&api) {}

  const NvmlApi* api_;
};

class Reader {
 public:
  explicit Reader(const NvmlApi& api) : api_(api) {}

  GpuReport read() {
    report_.driver = text("the driver's version", [&](char* out, unsigned int size) {
      return api_.driver_version(out, size);
    });
    unsigned int n_gpus = 0;
    is_told(api_.device_count(&n_gpus), "how many GPUs there are");
    for (unsigned int i = 0; i < std::min(n_gpus, kMostGpusAsked); ++i) read_gpu(i);
    return std::move(report_);
  }

 private:
  bool is_told(NvmlApi::Status status, std::string_view what) {
    if (status == kSuccess) return true;
    if (status != kNotSupported) {
      report_.notes.push_back(
          fmt::format("NVML does not tell {}: {}", what, api_.error_text(status)));
    }
    return false;
  }

  template <class Ask>
  std::string text(std::string_view what, Ask ask) {
    std::array<char, kTextBytes> out = {};
    if (!is_told(ask(out.data(), static_cast<unsigned int>(out.size())), what)) return "";
    out.back() = '\0';
    return out.data();
  }

  void read_gpu(unsigned int index) {
    const std::string which = fmt::format("GPU {}", index);
    NvmlApi::Device device = nullptr;
    if (!is_told(api_.device(index, &device), which)) return;
    GpuStatus gpu;
    gpu.name = text(which + "'s name",
                    [&](char* out, unsigned int size) { return api_.name(device, out, size); });
    NvmlApi::Memory memory;
    if (is_told(api_.memory(device, &memory), which + "'s memory")) {
      gpu.vram_total_bytes = memory.total;
      gpu.vram_free_bytes = std::min(memory.free, memory.total);
    }
    unsigned int generation = 0;
    unsigned int width = 0;
    if (is_told(api_.link_generation(device, &generation), which + "'s link") &&
        is_told(api_.link_width(device, &width), which + "'s link")) {
      gpu.link = fmt::format("PCIe {}.0 x{}", generation, width);
    }
    gpu.processes = processes_of(device, which);
    report_.gpus.push_back(std::move(gpu));
  }

  // The library says how many there are when it is given too little room; more may have come since.
  std::vector<GpuProcess> processes_of(NvmlApi::Device device, const std::string& which) {
    constexpr int kAttempts = 4;
    constexpr unsigned int kSpare = 8;
    std::vector<NvmlApi::Process> all(kSpare);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto count = static_cast<unsigned int>(all.size());
      const auto status = api_.processes(device, &count, all.data());
      count = std::min(count, kMostProcesses);
      if (status == kTooSmall) {
        all.resize(count + kSpare);
        continue;
      }
      if (!is_told(status, which + "'s processes")) return {};
      all.resize(std::min<size_t>(count, all.size()));
      std::vector<GpuProcess> found;
      for (const NvmlApi::Process& each : all) {
        GpuProcess& process = found.emplace_back(GpuProcess{.pid = static_cast<int>(each.pid)});
        if (each.vram_bytes != kUnknownBytes) process.vram_bytes = each.vram_bytes;
      }
      return found;
    }
    report_.notes.push_back(fmt::format("{}'s processes change faster than they are told", which));
    return {};
  }

  const NvmlApi& api_;
  GpuReport report_;
};

}  // namespace

Result<NvmlApi> load_nvml() {
  PENSTOCK_ASSIGN(SharedLibrary opened, SharedLibrary::open("libnvidia-ml.so.1"));
  const auto library = std::make_shared<const SharedLibrary>(std::move(opened));
  NvmlApi api;
  const bool is_whole =
      bind_function(library, "nvmlInit_v2", api.init) &&
      bind_function(library, "nvmlShutdown", api.shutdown) &&
      bind_function(library, "nvmlErrorString", api.error_text) &&
      bind_function(library, "nvmlSystemGetDriverVersion", api.driver_version) &&
      bind_function(library, "nvmlDeviceGetCount_v2", api.device_count) &&
      bind_function(library, "nvmlDeviceGetHandleByIndex_v2", api.device) &&
      bind_function(library, "nvmlDeviceGetName", api.name) &&
      bind_function(library, "nvmlDeviceGetMemoryInfo", api.memory) &&
      bind_function(library, "nvmlDeviceGetMaxPcieLinkGeneration", api.link_generation) &&
      bind_function(library, "nvmlDeviceGetMaxPcieLinkWidth", api.link_width) &&
      (bind_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.processes) ||
       bind_function(library, "nvmlDeviceGetComputeRunningProcesses_v2", api.processes));
  if (!is_whole) {
    return fail(ErrorKind::kUnsupported, "libnvidia-ml.so.1 is older than Penstock can ask");
  }
  return api;
}

Result<GpuReport> read_gpus(const NvmlApi& api) {
  PENSTOCK_ASSIGN(const Session session, Session::open(api));
  return Reader(api).read();
}

}  // namespace penstock
