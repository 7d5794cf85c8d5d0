#include "cli/doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/doctor/example_test.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// With every row that there can be.
Examination weak_machine() {
  Examination of = good_machine();
  of.system = {.is_wsl2 = true,
               .cgroup_bytes = 16 * kGiB,
               .swap_bytes = 8 * kGiB,
               .load = 3,
               .huge_pages = HugePages::kNever};
  Measurements& measured = of.measured;
  measured.profile.machine.ram.available_bytes = 9 * kGiB;
  measured.profile.machine.ram.memlock_bytes = 8 * kMiB;
  measured.profile.disk_folder = "/home/somebody/with a long name/.cache/penstock/models/of/today";
  measured.locks = {.locked_bytes = 8 * kMiB, .was_refused = true};
  measured.cpu->isa = Isa::kScalar;
  measured.cpu->rested_read_gb_s = 8.1;
  measured.cpu->expert_gb_s = {{"q4_0", 5}, {"q4_k", 5}, {"q8_0", 5}, {"mxfp4", 5}, {"nvfp4", 5}};
  measured.disk->is_direct = false;
  measured.disk->backend = "threads";
  measured.disk->rates.random_gb_s = 0.21;
  of.gpus.gpus[0].vram_free_bytes = kGiB;
  of.holders = {{.process = {.pid = 4711, .vram_bytes = 5 * kGiB},
                 .info = ProcessInfo{4711, "python", 812, 12 * kGiB},
                 .parent = ProcessInfo{812, "bash", 1, 4 * kMiB}}};
  return of;
}

TEST(DoctorText, EveryLineFitsAndVerdictsAreAColumn) {
  for (const int columns : {60, 80, 100}) {
    const std::string text = doctor_text(findings_of(weak_machine()), columns);
    std::istringstream lines(text);
    int n_weak = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
      if (line.ends_with("  weak")) {
        ++n_weak;
        EXPECT_EQ(line.size(), static_cast<size_t>(columns) - 3) << line;
      }
    }
    EXPECT_EQ(n_weak, 13) << text;
  }
}

TEST(DoctorText, AdviceFollowsItsRow) {
  const std::string text = doctor_text(findings_of(weak_machine()), 80);
  EXPECT_THAT(text, HasSubstr("\n  > this shell: ulimit -l unlimited\n"));
  EXPECT_LT(text.find("\nmemlock "), text.find("ulimit -l"));
  EXPECT_LT(text.find("ulimit -l"), text.find("\nGPU 0 "));
}

TEST(DoctorJson, HasFindingsProfileAndHolders) {
  const Examination of = weak_machine();
  const OrderedJson json = doctor_json(of, findings_of(of), "/cache/machine.json");
  EXPECT_EQ(json["findings"].size(), findings_of(of).size());
  EXPECT_EQ(json["findings"][0]["row"], "load");
  EXPECT_EQ(json["saved_to"], "/cache/machine.json");
  EXPECT_EQ(parse_profile(json["profile"].dump()), of.measured.profile);
  const OrderedJson& holder = json["gpu_processes"][0];
  EXPECT_EQ(holder["pid"], 4711);
  EXPECT_EQ(holder["parent"], 812);
  EXPECT_EQ(holder["rss_bytes"], 12 * kGiB);
  EXPECT_EQ(holder["may_hold_pinned_memory"], true);
  EXPECT_TRUE(doctor_json(of, {}, {})["saved_to"].is_null());
}

}  // namespace
}  // namespace penstock
