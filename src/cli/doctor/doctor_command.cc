// penstock doctor: measures this machine, says what is weak and what would improve it, and keeps
// the rates for `plan`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/doctor/report.h"
#include "cli/progress.h"
#include "os/file.h"
#include "os/terminal.h"

namespace penstock {
namespace {

struct DoctorOptions {
  std::filesystem::path disk = {};
  bool json = false;
  bool quick = false;
  bool no_save = false;
};

constexpr int kMostColumns = 100;  // longer lines are hard to read

// The user's cache directory, where packs may as well lie; or what there is of the way to it.
std::filesystem::path default_disk() {
  std::filesystem::path folder = profile_path().parent_path();
  while (!folder.empty() && !path_exists(folder)) folder = folder.parent_path();
  return folder.empty() ? "." : folder;
}

Result<void> check_disk(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return {};
  return fail(ErrorKind::kNotFound, "--disk {}: there is no such folder", folder.string());
}

Examination examine(const DoctorOptions& options) {
  Examination examination = {.system = system_facts()};
  if (auto api = load_nvml()) {
    auto report = read_gpus(*api);
    if (report)
      examination.gpus = *std::move(report);
    else
      examination.no_gpus = report.error().text();
  } else {
    examination.no_gpus = "there is no NVIDIA driver";
  }
  examination.holders = gpu_holders(examination.gpus);
  ProgressDisplay bytes;
  ProgressDisplay measurements("measurements");
  const ProfilerOptions profiler = {
      .disk_folder = options.disk.empty() ? default_disk() : options.disk,
      .is_quick = options.quick};
  examination.measured = measure_this_machine(profiler, examination.gpus, bytes.function(),
                                              [&](const ProgressUpdate& news) {
                                                bytes.finish();
                                                measurements.function()(news);
                                              });
  return examination;
}

// Where the profile went; empty where it was not kept. Not being able to is no reason to fail: what
// was measured is shown.
std::filesystem::path keep(const MachineProfile& profile, const DoctorOptions& options) {
  if (options.no_save) return {};
  std::filesystem::path path = profile_path();
  if (path.empty()) {
    fmt::print(stderr, "the profile is not kept: neither XDG_CACHE_HOME nor HOME is set\n");
    return {};
  }
  if (auto saved = save_profile(profile, path); !saved) {
    fmt::print(stderr, "the profile is not kept: {}\n", saved.error().text());
    return {};
  }
  return path;
}

Result<void> run(const DoctorOptions& options) {
  if (!options.disk.empty()) PENSTOCK_TRY(check_disk(options.disk));
  const Examination examination = examine(options);
  const std::vector<Finding> findings = findings_of(examination);
  for (const std::string& note : examination.gpus.notes) fmt::print(stderr, "{}\n", note);
  const std::filesystem::path saved_to = keep(examination.measured.profile, options);
  if (options.json) {
    fmt::print("{}\n", doctor_json(examination, findings, saved_to).dump(2));
    return {};
  }
  fmt::print("{}", doctor_text(findings, std::min(terminal_columns(stdout), kMostColumns)));
  if (!saved_to.empty()) {
    fmt::print("\nkept in {}{}; penstock plan uses it\n", saved_to.string(),
               options.quick ? " (--quick: less exact)" : "");
  }
  return {};
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Measures this machine, and says what would make models faster on it.");
  command
      ->add_option("--disk", options->disk,
                   "the folder whose disk is measured, where packs lie; the user's cache directory "
                   "unless given")
      ->type_name("DIR");
  command->add_flag("--quick", options->quick, "some seconds instead of half a minute: less exact");
  command->add_flag("--no-save", options->no_save,
                    "do not keep the rates, which penstock plan uses otherwise");
  command->add_flag("--json", options->json, "everything, as JSON");
  command->footer(examples({{"penstock doctor", "half a minute; best while nothing else runs"},
                            {"penstock doctor --disk /models", "with the disk that packs lie on"},
                            {"penstock doctor --quick --no-save --json", "a look, for a script"}}));
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace penstock
