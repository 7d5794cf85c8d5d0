#include "memory/profile/machine_profile.h"

#include <unistd.h>

#include <array>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/units.h"
#include "memory/plan/json_record.h"
#include "os/environment.h"
#include "os/file.h"
#include "os/output.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMostProfileBytes = kMiB;
constexpr std::string_view kAgain = "`penstock doctor` measures this machine";

// "cpu was X, is Y" for the first part that differs.
std::string difference(const MachineKey& was, const MachineKey& is) {
  const std::array<std::pair<std::string_view, std::string MachineKey::*>, 5> parts = {
      {{"the CPU", &MachineKey::cpu},
       {"the memory", &MachineKey::memory},
       {"the link to the GPU", &MachineKey::link},
       {"the GPU's driver", &MachineKey::driver},
       {"the kernel", &MachineKey::kernel}}};
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  for (const auto& [name, part] : parts) {
    if (was.*part == is.*part) continue;
    return fmt::format("{} was {}, is {}", name, shown(was.*part), shown(is.*part));
  }
  return {};
}

}  // namespace

template <class Self, class Visit>
void MachineProfile::visit_fields(Self& self, Visit& visit) {
  visit.required("date", self.date);
  visit("effort", self.effort);
  visit("version", self.version);
  visit("read_gb_s_by_threads", self.read_gb_s_by_threads);
  visit("rested_read_gb_s", self.rested_read_gb_s);
  visit("disk_folder", self.disk_folder);
  visit("gpus", self.gpus);
}

// The machine is not one of the visited fields: it has checks of its own.
OrderedJson to_json(const MachineProfile& profile) {
  OrderedJson json = record_to_json(profile);
  json["machine"] = to_json(profile.machine);
  return json;
}

Result<MachineProfile> parse_profile(std::string_view text) {
  PENSTOCK_ASSIGN(Json json, parse_json(text, {.max_depth = 8, .refuse_duplicates = true}));
  if (!json.is_object() || !json.contains("machine")) {
    return fail(ErrorKind::kInvalidData, "machine profile: machine is missing");
  }
  PENSTOCK_ASSIGN(Machine machine, machine_from_json(json["machine"]));
  json.erase("machine");
  PENSTOCK_ASSIGN(MachineProfile profile,
                  record_from_json<MachineProfile>(json, "machine profile"));
  profile.machine = std::move(machine);
  return profile;
}

fs::path profile_path() {
  fs::path base = environment_variable("XDG_CACHE_HOME");
  if (base.empty()) {
    const std::string_view home = environment_variable("HOME");
    if (home.empty()) return {};
    base = fs::path(home) / ".cache";
  }
  return base / "penstock/machine.json";
}

Result<void> save_profile(const MachineProfile& profile, const fs::path& path) {
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  fs::path partial = path;
  partial += fmt::format(".partial-{}", ::getpid());
  fs::remove(partial, code);  // of a killed process that had this one's number
  const std::string text = to_json(profile).dump(2) + "\n";
  PENSTOCK_ASSIGN(OutputFile file, OutputFile::create(partial));
  auto written = file.append(std::as_bytes(std::span(text)));
  if (written) written = file.sync();
  if (written) {
    fs::rename(partial, path, code);
    if (!code) return {};
    written = std::unexpected(Error::from_errno(code.value(), "replace", path));
  }
  fs::remove(partial, code);
  return written;
}

FoundProfile find_profile(const fs::path& path, const MachineKey& key) {
  if (path.empty() || !path_exists(path)) return {};
  const auto text = read_whole_file(path, kMostProfileBytes);
  auto profile = text ? parse_profile(*text) : std::unexpected(text.error());
  if (!profile) {
    return {.note = fmt::format("{} is not believed: {} ({})", path.string(),
                                profile.error().text(), kAgain)};
  }
  if (const std::string other = difference(profile->machine.key, key); !other.empty()) {
    return {.note = fmt::format("{} is not believed, for it is another machine's: {} ({})",
                                path.string(), other, kAgain)};
  }
  return {.profile = *std::move(profile)};
}

void adopt_rates(const MachineProfile& profile, Machine& machine) {
  machine.ram.read_gb_s = profile.machine.ram.read_gb_s;
  machine.cpu.expert_gb_s = profile.machine.cpu.expert_gb_s;
  machine.cpu.attention_gb_s = profile.machine.cpu.attention_gb_s;
  machine.cpu.prefill_tflop_s = profile.machine.cpu.prefill_tflop_s;
  machine.pin_quota_bytes = profile.machine.pin_quota_bytes;
  machine.disk = profile.machine.disk;
}

}  // namespace penstock
