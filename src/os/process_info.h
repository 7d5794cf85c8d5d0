// What can be seen of another process: who it is, who started it, how much RAM it holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace penstock {

struct ProcessInfo {
  int pid = 0;
  std::string name = {};
  int parent = 0;          // its pid; 0: none that can be seen
  uint64_t rss_bytes = 0;  // in RAM now

  bool operator==(const ProcessInfo&) const = default;
};

// Nothing where there is no such process, or none that this one may see, as from a container.
// Reads /proc below `root` (tests bring their own).
std::optional<ProcessInfo> process_info(int pid, const std::filesystem::path& root = "/");

}  // namespace penstock
