#include "cli/doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cli/doctor/example_test.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

Finding row(const Examination& of, std::string_view name) {
  const auto findings = findings_of(of);
  const auto found = std::ranges::find(findings, name, &Finding::row);
  return found == findings.end() ? Finding{.row = "none"} : *found;
}

TEST(Findings, AGoodMachineNeedsNoAdvice) {
  for (const Finding& each : findings_of(good_machine())) {
    EXPECT_EQ(each.verdict, Verdict::kGood) << each.row << ": " << each.found;
    EXPECT_TRUE(each.advice.empty()) << each.row;
    EXPECT_FALSE(each.found.empty()) << each.row;
  }
  EXPECT_EQ(row(good_machine(), "WSL2").row, "none");
  EXPECT_EQ(row(good_machine(), "cgroup limit").row, "none");
}

TEST(Findings, EachWeaknessIsARowWithWhatImprovesIt) {
  struct Weakness {
    std::string_view row;
    std::function<void(Examination&)> make;
    std::string_view advice;
  };
  const auto ram = [](Examination& of) -> MachineRam& { return of.measured.profile.machine.ram; };
  const std::vector<Weakness> weaknesses = {
      {"CPU", [](auto& of) { of.measured.cpu->isa = Isa::kScalar; }, "PENSTOCK_CPU_ISA"},
      {"load", [](auto& of) { of.system.load = 1.5; }, "doctor again"},
      {"RAM", [&](auto& of) { ram(of).available_bytes = 20 * kGiB; }, "--sort=-rss"},
      {"cgroup limit", [](auto& of) { of.system.cgroup_bytes = 8 * kGiB; }, "MemoryMax"},
      {"WSL2", [](auto& of) { of.system.is_wsl2 = true; }, ".wslconfig"},
      {"swap",
       [&](auto& of) {
         of.system.swap_bytes = kGiB;
         ram(of).memlock_bytes = 8 * kMiB;
       },
       "swapoff"},
      {"memory reads", [](auto& of) { of.measured.cpu->read_gb_s[16] = 9; }, "channel"},
      {"after a rest", [](auto& of) { of.measured.cpu->rested_read_gb_s = 20; }, "virtual machine"},
      {"huge pages", [](auto& of) { of.system.huge_pages = HugePages::kNever; },
       "transparent_hugepage/enabled"},
      {"experts", [](auto& of) { of.measured.cpu->expert_gb_s["q4_k"] = 12; }, "bench kernels"},
      {"disk", [](auto& of) { of.measured.disk->rates.random_gb_s = 0.4; }, "--disk"},
      {"direct reads", [](auto& of) { of.measured.disk->is_direct = false; }, "O_DIRECT"},
      {"direct reads", [](auto& of) { of.measured.disk->backend = "threads"; },
       "io_uring_disabled"},
      {"memlock", [&](auto& of) { ram(of).memlock_bytes = 8 * kMiB; }, "ulimit -l"},
      {"memlock", [](auto& of) { of.measured.locks.was_refused = true; }, "limits.conf"},
      {"GPU 0", [](auto& of) { of.gpus.gpus[0].vram_free_bytes = 3 * kGiB; }, "not to be seen"},
      {"pin quota",
       [](auto& of) { of.measured.gpu->pins = {.pinned_bytes = 2 * kGiB, .was_refused = true}; },
       "other programs"},
      {"GPU 0", [](auto& of) { of.holders = {{.process = {.pid = 7}}}; }, "may hold pinned memory"},
  };
  for (const Weakness& weakness : weaknesses) {
    Examination of = good_machine();
    weakness.make(of);
    const Finding found = row(of, weakness.row);
    EXPECT_EQ(found.verdict, Verdict::kWeak) << weakness.row << ": " << found.found;
    const std::string advice = fmt::format("{}", fmt::join(found.advice, "\n"));
    EXPECT_THAT(advice, HasSubstr(weakness.advice)) << weakness.row;
  }
}

TEST(Findings, SwapIsHarmlessWhereMemoryCanBeLocked) {
  Examination of = good_machine();
  of.system.swap_bytes = kGiB;
  EXPECT_EQ(row(of, "swap").verdict, Verdict::kGood);
}

TEST(Findings, WhatWasNotMeasuredIsMissingAndSaysWhy) {
  Examination of = good_machine();
  of.measured.cpu.reset();
  of.measured.no_cpu = "too little memory";
  of.measured.disk.reset();
  of.measured.no_disk = "the disk is full";
  of.gpus = {};
  of.no_gpus = "there is no NVIDIA driver";
  of.measured.gpu.reset();
  of.system.huge_pages.reset();
  for (const char* name : {"memory reads", "disk", "GPU", "huge pages", "GPU link", "pin quota"}) {
    EXPECT_EQ(row(of, name).verdict, Verdict::kMissing) << name;
  }
  EXPECT_EQ(row(of, "memory reads").found, "too little memory");
  EXPECT_EQ(row(of, "disk").found, "the disk is full");
  EXPECT_THAT(row(of, "GPU").found, HasSubstr("there is no NVIDIA driver"));
  EXPECT_EQ(row(of, "experts").row, "none");
}

TEST(Findings, HoldersOfAGpuAreNamedWithParentAndMemory) {
  const FakeRoot root;
  root.write("proc/4711/comm", "python\n");
  root.write("proc/4711/status", "PPid:\t812\nVmRSS:\t 12582912 kB\n");
  root.write("proc/812/comm", "bash\n");
  root.write("proc/812/status", "PPid:\t1\nVmRSS:\t 4096 kB\n");
  Examination of = good_machine();
  of.gpus.gpus[0].processes = {{.pid = 4711, .vram_bytes = 5 * kGiB}, {.pid = 99}};
  of.holders = gpu_holders(of.gpus, root.path());
  const Finding gpu = row(of, "GPU 0");
  EXPECT_EQ(gpu.verdict, Verdict::kWeak);
  EXPECT_THAT(gpu.advice, testing::ElementsAre(
                              "pid 4711 python, started by pid 812 bash: 5.0 GiB of VRAM, 12.0 "
                              "GiB of RAM; may hold pinned memory",
                              "pid 99, not to be seen from here; may hold pinned memory"));
}

TEST(SystemFacts, AreReadBelowTheRoot) {
  const FakeRoot root;
  root.write("proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x) #1\n");
  root.write("proc/meminfo", "MemTotal: 16777216 kB\nSwapTotal: 4194304 kB\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  root.write("proc/loadavg", "0.75 0.5 0.25 1/99 7\n");
  root.write("proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/a\n");
  root.write("sys/fs/cgroup/a/memory.max", "8589934592\n");
  const SystemFacts facts = system_facts(root.path());
  EXPECT_TRUE(facts.is_wsl2);
  EXPECT_EQ(facts.swap_bytes, 4 * kGiB);
  EXPECT_EQ(facts.load, 0.75);
  EXPECT_EQ(facts.huge_pages, HugePages::kNever);
  EXPECT_EQ(facts.cgroup_bytes, 8 * kGiB);
}

}  // namespace
}  // namespace penstock
