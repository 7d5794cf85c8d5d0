#include "os/cpu_limits.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

namespace fs = std::filesystem;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct CpuSetFree {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetFree>;

// The first `count` numbers of a file, or nothing: "max" and unreadable files are no numbers.
std::optional<std::vector<double>> read_numbers(const fs::path& path, size_t count) {
  std::ifstream file(path);
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    if (!(file >> number)) return std::nullopt;
  }
  return numbers;
}

double quota_v2(const fs::path& group) {
  const auto max = read_numbers(group / "cpu.max", 2);  // "quota period" or "max period"
  return max && (*max)[0] > 0 && (*max)[1] > 0 ? (*max)[0] / (*max)[1] : kUnlimited;
}

double quota_v1(const fs::path& group) {
  const auto quota = read_numbers(group / "cpu.cfs_quota_us", 1);  // -1: none
  const auto period = read_numbers(group / "cpu.cfs_period_us", 1);
  if (!quota || !period || (*quota)[0] <= 0 || (*period)[0] <= 0) return kUnlimited;
  return (*quota)[0] / (*period)[0];
}

bool lists(std::string_view comma_separated, std::string_view word) {
  std::istringstream words{std::string(comma_separated)};
  for (std::string each; std::getline(words, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

// This process's group in the hierarchy of the cpu controller (v1) or in the unified one (v2).
std::optional<std::string> own_group(const fs::path& root, bool is_v2) {
  std::ifstream file(root / "proc/self/cgroup");  // "id:controllers:path" a line
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : lists(controllers, "cpu")) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct CgroupMount {
  bool is_v2 = false;
  std::string group;  // the group that stands at the mount point
  std::string point;
};

// Parses a line of /proc/self/mountinfo: "id parent dev root point options [tags] - type source
// super".
std::optional<CgroupMount> parse_cpu_mount(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, device, group, point, word, type, source, super;
  if (!(words >> id >> parent >> device >> group >> point)) return std::nullopt;
  while (words >> word && word != "-") {
  }
  if (!(words >> type >> source >> super)) return std::nullopt;
  const bool is_v2 = type == "cgroup2";
  if (!is_v2 && (type != "cgroup" || !lists(super, "cpu"))) return std::nullopt;
  return CgroupMount{is_v2, group, point};
}

// The group's path below the mount point; "" when the mount shows no more than a part that the
// process is not in, as inside containers without a cgroup namespace.
std::string below_mount(const CgroupMount& mount, const std::string& group) {
  if (mount.group == "/") return group;
  if (group.starts_with(mount.group)) return group.substr(mount.group.size());
  return "";
}

// Every group from the process's own up to the mount point binds it.
double tightest_quota(const CgroupMount& mount, const std::string& group, const fs::path& root) {
  const fs::path top = root / fs::path(mount.point).relative_path();
  fs::path below = fs::path(below_mount(mount, group)).relative_path();
  double quota = kUnlimited;
  for (;;) {
    quota = std::min(quota, mount.is_v2 ? quota_v2(top / below) : quota_v1(top / below));
    if (below.empty()) return quota;
    below = below.parent_path();
  }
}

}  // namespace

std::vector<int> affinity_cpus() {
  // The kernel refuses a set smaller than its own, whose size it does not tell.
  for (int n_cpus = CPU_SETSIZE; n_cpus <= (1 << 20); n_cpus *= 2) {
    const CpuSet set(CPU_ALLOC(static_cast<size_t>(n_cpus)));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n_cpus));
    if (!set) break;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

double cgroup_cpu_quota(const fs::path& root) {
  double quota = kUnlimited;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto mount = parse_cpu_mount(line);
    if (!mount) continue;
    if (const auto group = own_group(root, mount->is_v2)) {
      quota = std::min(quota, tightest_quota(*mount, *group, root));
    }
  }
  return quota;
}

bool pin_this_thread(int cpu) {
  if (cpu < 0) return false;
  const CpuSet set(CPU_ALLOC(static_cast<size_t>(cpu) + 1));
  if (!set) return false;
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
  CPU_ZERO_S(bytes, set.get());
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set.get());
  return ::pthread_setaffinity_np(::pthread_self(), bytes, set.get()) == 0;
}

}  // namespace penstock
