#include "memory/profile/profiler.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/units.h"
#include "memory/profile/machine_facts.h"
#include "os/fake_root_test.h"
#include "os/system_info.h"

namespace penstock {
namespace {

TEST(MachineFacts, TheKeyHasWhatTellsMachinesApart) {
  const MachineKey bare = machine_facts({}).key;
  EXPECT_NE(bare.cpu.find(" threads"), std::string::npos);
  EXPECT_NE(bare.memory.find("GiB"), std::string::npos);
  EXPECT_EQ(bare.kernel, kernel_release());
  EXPECT_EQ(bare.driver, "");
  EXPECT_EQ(machine_facts({}).key, bare);
  const MachineKey other =
      machine_facts({.driver = "570", .gpus = {{.name = "RTX", .link = "PCIe 4.0 x8"}}}).key;
  EXPECT_EQ(other.driver, "570");
  EXPECT_EQ(other.link, "RTX, PCIe 4.0 x8");
}

TEST(CpuEffort, IsAQuarterOfWhatIsAvailableAndMoreThanTheCachesHold) {
  EXPECT_EQ(cpu_effort(false, 64 * kGiB, 32 * kMiB)->ring_bytes, 1280 * kMiB);
  EXPECT_EQ(cpu_effort(false, 2 * kGiB, 32 * kMiB)->ring_bytes, 512 * kMiB);
  EXPECT_EQ(cpu_effort(true, 64 * kGiB, 32 * kMiB)->ring_bytes, 512 * kMiB);
  for (const uint64_t available : {uint64_t{0}, 511 * kMiB}) {
    const auto effort = cpu_effort(false, available, 32 * kMiB);
    ASSERT_FALSE(effort);
    EXPECT_NE(effort.error().message.find("128.0 MiB"), std::string::npos)
        << effort.error().message;
  }
  EXPECT_FALSE(cpu_effort(false, 1 * kGiB, 256 * kMiB));  // would measure the cache
}

TEST(MeasureCpu, FindsARateForEveryThreadCountAndFormat) {
  const CpuEffort effort = {
      .ring_bytes = 32 * kMiB, .n_samples = 1, .sample_seconds = 1e-4, .all_formats = false};
  std::map<std::string, uint64_t> totals;
  const auto cpu = measure_cpu(effort, [&](const ProgressUpdate& news) {
    EXPECT_LE(news.done, news.total);
    totals[std::string(news.stage)] = news.total;
  });
  ASSERT_TRUE(cpu) << cpu.error().message;
  EXPECT_TRUE(cpu->read_gb_s.contains(1));
  EXPECT_TRUE(cpu->read_gb_s.contains(cpu->n_threads));
  EXPECT_EQ(totals["reading memory"], cpu->read_gb_s.size() + 1);
  for (const char* format : {"q4_0", "q4_k", "nvfp4", "mxfp4", "bf16", "fp8-block"}) {
    ASSERT_TRUE(cpu->expert_gb_s.contains(format)) << format;
    EXPECT_GT(cpu->expert_gb_s.at(format), 0);
  }
  EXPECT_GT(cpu->rested_read_gb_s, 0);
  EXPECT_GT(cpu->attention_gb_s, 0);
  EXPECT_GT(cpu->prefill_tflop_s, 0);
}

}  // namespace
}  // namespace penstock
