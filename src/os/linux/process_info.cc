#include "os/process_info.h"

#include <fstream>

#include "base/units.h"
#include "os/linux/labelled.h"

namespace penstock {

std::optional<ProcessInfo> process_info(int pid, const std::filesystem::path& root) {
  const std::filesystem::path folder = root / "proc" / std::to_string(pid);
  ProcessInfo info = {.pid = pid};
  std::ifstream comm(folder / "comm");
  if (!std::getline(comm, info.name)) return std::nullopt;
  const std::filesystem::path status = folder / "status";
  info.parent = static_cast<int>(read_labelled(status, "PPid:").value_or(0));
  info.rss_bytes = read_labelled(status, "VmRSS:").value_or(0) * kKiB;
  return info;
}

}  // namespace penstock
