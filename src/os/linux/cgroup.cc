#include "os/linux/cgroup.h"

#include <fstream>
#include <sstream>
#include <string>

namespace penstock {
namespace {

namespace fs = std::filesystem;

bool lists(std::string_view comma_separated, std::string_view word) {
  std::istringstream words{std::string(comma_separated)};
  for (std::string each; std::getline(words, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

// This process's group in the controller's hierarchy (v1) or in the unified one (v2).
std::optional<std::string> own_group(const fs::path& root, std::string_view controller,
                                     CgroupVersion version) {
  std::ifstream file(root / "proc/self/cgroup");  // "id:controllers:path" a line
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version == CgroupVersion::kV2 ? controllers.empty() : lists(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

struct CgroupMount {
  CgroupVersion version = CgroupVersion::kV1;
  std::string group;  // the group that stands at the mount point
  std::string point;
};

// Parses a line of /proc/self/mountinfo: "id parent dev root point options [tags] - type source
// super".
std::optional<CgroupMount> parse_mount(const std::string& line, std::string_view controller) {
  std::istringstream words(line);
  std::string id, parent, device, group, point, word, type, source, super;
  if (!(words >> id >> parent >> device >> group >> point)) return std::nullopt;
  while (words >> word && word != "-") {
  }
  if (!(words >> type >> source >> super)) return std::nullopt;
  if (type == "cgroup2") return CgroupMount{CgroupVersion::kV2, group, point};
  if (type != "cgroup" || !lists(super, controller)) return std::nullopt;
  return CgroupMount{CgroupVersion::kV1, group, point};
}

// The group's path below the mount point; "" when the mount shows no more than a part that the
// process is not in, as inside containers without a cgroup namespace.
std::string below_mount(const CgroupMount& mount, const std::string& group) {
  if (mount.group == "/") return group;
  if (group.starts_with(mount.group)) return group.substr(mount.group.size());
  return "";
}

}  // namespace

std::optional<std::vector<double>> read_numbers(const fs::path& path, size_t count) {
  std::ifstream file(path);
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    if (!(file >> number)) return std::nullopt;
  }
  return numbers;
}

void for_each_cgroup(const fs::path& root, std::string_view controller,
                     const std::function<void(const fs::path&, CgroupVersion)>& f) {
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto mount = parse_mount(line, controller);
    if (!mount) continue;
    const auto group = own_group(root, controller, mount->version);
    if (!group) continue;
    const fs::path top = root / fs::path(mount->point).relative_path();
    fs::path below = fs::path(below_mount(*mount, *group)).relative_path();
    for (;; below = below.parent_path()) {
      f(top / below, mount->version);
      if (below.empty()) break;
    }
  }
}

}  // namespace penstock
