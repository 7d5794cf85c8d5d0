#include "cuda/nvml.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/units.h"

namespace penstock {
namespace {

constexpr NvmlApi::Status kFailed = 999;  // NVML_ERROR_UNKNOWN

// A driver with scripted GPUs. `fails` is the call that does, counted from 1.
struct FakeNvml {
  std::vector<NvmlApi::Process> processes = {};
  bool has_link = true;
  int fails = 0;
  int n_calls = 0;
  int n_open = 0;

  NvmlApi::Status answer() { return ++n_calls == fails ? kFailed : 0; }

  NvmlApi api() {
    NvmlApi api;
    api.init = [this] {
      const auto status = answer();
      n_open += status == 0 ? 1 : 0;
      return status;
    };
    api.shutdown = [this] { return --n_open, 0; };
    api.error_text = [](NvmlApi::Status) { return "Unknown Error"; };
    api.driver_version = [this](char* out, unsigned int size) {
      std::snprintf(out, size, "570.133.20");
      return answer();
    };
    api.device_count = [this](unsigned int* count) { return *count = 1, answer(); };
    api.device = [this](unsigned int, NvmlApi::Device* device) { return *device = this, answer(); };
    api.name = [this](NvmlApi::Device, char* out, unsigned int size) {
      std::snprintf(out, size, "RTX 4060");
      return answer();
    };
    api.memory = [this](NvmlApi::Device, NvmlApi::Memory* memory) {
      *memory = {.total = 8 * kGiB, .free = 7 * kGiB, .used = kGiB};
      return answer();
    };
    api.link_generation = [this](NvmlApi::Device, unsigned int* generation) {
      *generation = 4;
      const auto status = answer();
      return has_link ? status : 3;
    };
    api.link_width = [this](NvmlApi::Device, unsigned int* width) { return *width = 8, answer(); };
    api.processes = [this](NvmlApi::Device, unsigned int* count, NvmlApi::Process* out) {
      const bool is_too_small = *count < processes.size();
      *count = static_cast<unsigned int>(processes.size());
      if (is_too_small) return 7;
      std::ranges::copy(processes, out);
      return answer();
    };
    return api;
  }
};

TEST(Nvml, TellsGpusAndWhoHoldsThem) {
  FakeNvml fake = {
      .processes = {{.pid = 4711, .vram_bytes = kGiB}, {.pid = 5, .vram_bytes = ~0ULL}}};
  const auto report = read_gpus(fake.api());
  ASSERT_TRUE(report) << report.error().message;
  const GpuReport expected = {.driver = "570.133.20",
                              .gpus = {{.name = "RTX 4060",
                                        .link = "PCIe 4.0 x8",
                                        .vram_total_bytes = 8 * kGiB,
                                        .vram_free_bytes = 7 * kGiB,
                                        .processes = {{4711, kGiB}, {5, std::nullopt}}}}};
  EXPECT_EQ(*report, expected);
  EXPECT_EQ(fake.n_open, 0);
}

TEST(Nvml, MoreProcessesThanThereIsRoomForAtFirst) {
  FakeNvml fake = {.processes = std::vector<NvmlApi::Process>(100, {.pid = 7})};
  const auto report = read_gpus(fake.api());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->gpus.at(0).processes.size(), 100u);
}

TEST(Nvml, WhatAGpuDoesNotHaveNeedsNoNote) {
  FakeNvml fake = {.has_link = false};
  const auto report = read_gpus(fake.api());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->gpus.at(0).link, "");
  EXPECT_TRUE(report->notes.empty());
}

TEST(Nvml, EveryCallMayFailAndIsSaid) {
  FakeNvml whole;
  ASSERT_TRUE(read_gpus(whole.api()));
  for (int fails = 1; fails <= whole.n_calls; ++fails) {
    FakeNvml fake = {.fails = fails};
    const auto report = read_gpus(fake.api());
    EXPECT_EQ(report.has_value(), fails != 1) << fails;
    const std::string said =
        report ? fmt::format("{}", report->notes.at(0)) : report.error().message;
    EXPECT_NE(said.find("Unknown Error"), std::string::npos) << said;
    EXPECT_EQ(fake.n_open, 0) << fails;
  }
}

TEST(Nvml, WithoutADriverItIsNotFoundOrItAnswers) {
  const auto api = load_nvml();
  if (!api) {
    EXPECT_EQ(api.error().kind, ErrorKind::kNotFound) << api.error().message;
    return;
  }
  const auto report = read_gpus(*api);
  if (!report) GTEST_SKIP() << report.error().message;
  EXPECT_FALSE(report->driver.empty());
}

}  // namespace
}  // namespace penstock
