#include "os/system_info.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/units.h"
#include "os/linux/labelled.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<HugePages, std::string_view>, 3> kHugePagesNames = {
    {{HugePages::kAlways, "always"},
     {HugePages::kWhoAsks, "madvise"},
     {HugePages::kNever, "never"}}};

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string kernel_release(const fs::path& root) {
  const std::string release = first_line(root / "proc/sys/kernel/osrelease");
  return release.empty() ? "unknown" : release;
}

// "... 5.15.153.1-microsoft-standard-WSL2 ..."; WSL1's says "Microsoft" alone, and kernels that
// people build for WSL2 keep one of the two marks.
bool is_wsl2(const fs::path& root) {
  const std::string version = first_line(root / "proc/version");
  return version.find("WSL2") != std::string::npos ||
         version.find("microsoft-standard") != std::string::npos;
}

uint64_t swap_bytes(const fs::path& root) {
  return read_labelled(root / "proc/meminfo", "SwapTotal:").value_or(0) * kKiB;
}

double load_average(const fs::path& root) {
  std::ifstream file(root / "proc/loadavg");
  double average = 0;
  file >> average;
  return file ? average : 0;
}

std::string_view to_string(HugePages policy) {
  return std::ranges::find(kHugePagesNames, policy, [](const auto& each) { return each.first; })
      ->second;
}

// "always [madvise] never"
std::optional<HugePages> huge_pages(const fs::path& root) {
  const std::string line = first_line(root / "sys/kernel/mm/transparent_hugepage/enabled");
  for (const auto& [policy, name] : kHugePagesNames) {
    if (line.find('[' + std::string(name) + ']') != std::string::npos) return policy;
  }
  return std::nullopt;
}

uint64_t largest_cache_bytes(const fs::path& root) {
  uint64_t largest = 0;
  std::error_code ignored;
  const fs::path caches = root / "sys/devices/system/cpu/cpu0/cache";
  for (const fs::directory_entry& cache : fs::directory_iterator(caches, ignored)) {
    const auto size = parse_bytes(first_line(cache.path() / "size"));  // "266240K"
    if (size) largest = std::max(largest, *size);
  }
  return largest;
}

}  // namespace penstock
