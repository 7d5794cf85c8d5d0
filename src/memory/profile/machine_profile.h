// What `doctor` measured of a machine, kept in the user's cache directory and believed on that
// machine alone.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "memory/plan/machine.h"

namespace penstock {

struct MachineProfile {
  std::string date = {};     // when it was measured, UTC: "2026-11-30 22:24"
  std::string effort = {};   // "full", or "quick": less exact
  std::string version = {};  // of the Penstock that measured
  Machine machine = {};
  // Of RAM, in GB/s, by how many threads read at once: "1", "2", "4". Machine has that of all.
  std::map<std::string, double> read_gb_s_by_threads = {};
  // Of all threads, where nobody had read that memory for a second, as experts lie that few tokens
  // choose: a virtual machine's host may have to be asked for such pages again.
  std::optional<double> rested_read_gb_s = {};
  std::string disk_folder = {};  // whose disk machine.disk is
  // What the driver shows and was measured; machine.gpus are those that a model can run on.
  std::vector<MachineGpu> gpus = {};

  bool operator==(const MachineProfile&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

OrderedJson to_json(const MachineProfile& profile);
Result<MachineProfile> parse_profile(std::string_view text);

// penstock/machine.json below XDG_CACHE_HOME or ~/.cache; empty where the environment names
// neither.
std::filesystem::path profile_path();

// Written beside `path`, then put in its place: nobody reads half a profile.
Result<void> save_profile(const MachineProfile& profile, const std::filesystem::path& path);

// The profile at `path` if it is one of this machine. Of one that is not believed, `note` says why;
// where there is none, there is no note.
struct FoundProfile {
  std::optional<MachineProfile> profile = {};
  std::string note = {};
};
FoundProfile find_profile(const std::filesystem::path& path, const MachineKey& key);

// What was measured once, for a machine as it is now: limits and free memory stay what they are.
void adopt_rates(const MachineProfile& profile, Machine& machine);

}  // namespace penstock
