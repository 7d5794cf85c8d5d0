#include "memory/plan/machine.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/units.h"

namespace penstock {
namespace {

constexpr const char* kWhole = R"({
  "key": {"cpu": "X", "memory": "192 GiB", "link": "PCIe 5 x16", "driver": "570", "kernel": "6.1"},
  "ram": {"total_bytes": "192 GiB", "available_bytes": "180 GiB", "memlock_bytes": "24GiB", "read_gb_s": 80},
  "cpu": {"n_cores": 16, "n_threads": 32, "expert_gb_s": {"nvfp4": 53.8, "bf16": 70}, "attention_gb_s": 31, "prefill_tflop_s": 2.5},
  "pin_quota_bytes": "94 GiB",
  "disk": {"sequential_gb_s": 7, "random_gb_s": 5.5, "small_reads_a_s": 130000},
  "gpus": [{"name": "RTX 5090", "vram_total_bytes": "32 GiB", "vram_free_bytes": "31 GiB", "vram_gb_s": 1790,
            "host_to_device_gb_s": 52.7, "zero_copy_gb_s": 49, "prefill_tflop_s": 150}]})";

TEST(Machine, EveryFieldIsReadAndComesBack) {
  const auto machine = parse_machine(kWhole);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->key.link, "PCIe 5 x16");
  EXPECT_EQ(machine->ram.total_bytes, 192 * kGiB);
  EXPECT_EQ(machine->ram.available_bytes, 180 * kGiB);
  EXPECT_EQ(machine->ram.memlock_bytes, 24 * kGiB);
  EXPECT_EQ(machine->ram.read_gb_s, 80);
  EXPECT_EQ(machine->cpu.n_threads, 32);
  EXPECT_EQ(machine->cpu.expert_gb_s.at("nvfp4"), 53.8);
  EXPECT_EQ(machine->cpu.attention_gb_s, 31);
  EXPECT_EQ(machine->pin_quota_bytes, 94 * kGiB);
  EXPECT_EQ(machine->disk.small_reads_a_s, 130000);
  ASSERT_EQ(machine->gpus.size(), 1u);
  EXPECT_EQ(machine->gpus[0].vram_free_bytes, 31 * kGiB);
  EXPECT_EQ(machine->gpus[0].zero_copy_gb_s, 49);
  EXPECT_EQ(machine_from_json(Json::parse(to_json(*machine).dump())), *machine);
}

TEST(Machine, WhatIsNotSaidIsUnknownOrAsMuchAsThereIs) {
  const auto machine = parse_machine(R"({"ram": {"total_bytes": 1024}, "cpu": {"n_cores": 4},
                        "gpus": [{"vram_total_bytes": 77}]})");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->ram.available_bytes, 1024u);
  EXPECT_EQ(machine->ram.memlock_bytes, std::nullopt);
  EXPECT_EQ(machine->ram.read_gb_s, std::nullopt);
  EXPECT_EQ(machine->cpu.n_threads, 4);
  EXPECT_EQ(machine->pin_quota_bytes, std::nullopt);
  EXPECT_EQ(machine->gpus[0].vram_free_bytes, 77u);
  EXPECT_EQ(machine_from_json(Json::parse(to_json(*machine).dump())), *machine);
}

TEST(Machine, TheKeyTellsMachinesApart) {
  const auto machine = parse_machine(kWhole);
  ASSERT_TRUE(machine);
  for (std::string MachineKey::* part : {&MachineKey::cpu, &MachineKey::memory, &MachineKey::link,
                                         &MachineKey::driver, &MachineKey::kernel}) {
    MachineKey other = machine->key;
    EXPECT_EQ(other, machine->key);
    other.*part += "!";
    EXPECT_NE(other, machine->key);
  }
}

TEST(Machine, EachMistakeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "machine description: the whole is [], expected an object"},
      {"{", "invalid JSON"},
      {"{}", "machine description: ram is missing"},
      {R"({"ram": {}})", "ram.total_bytes is missing"},
      {R"({"ram": {"total_bytes": 1}, "rom": 1})",
       "there is no field rom; there are: key, ram, cpu"},
      {R"({"ram": {"total_bytes": 1, "speed": 2}})", "there is no field ram.speed"},
      {R"({"ram": {"total_bytes": -1}})", "ram.total_bytes is -1, expected a size"},
      {R"({"ram": {"total_bytes": 1.5}})", "ram.total_bytes is 1.5, expected a size"},
      {R"({"ram": {"total_bytes": "lots"}})", "ram.total_bytes is \"lots\", expected a size"},
      {R"({"ram": {"total_bytes": "2000 TiB"}})", "at most 1 PiB"},
      {R"({"ram": {"total_bytes": null}})", "ram.total_bytes is null"},
      {R"({"ram": {"total_bytes": 1, "total_bytes": 2}})", "occurs twice"},
      {R"({"ram": {"total_bytes": 1, "available_bytes": 2}})", "more than ram.total_bytes"},
      {R"({"ram": {"total_bytes": 1, "read_gb_s": 0}})", "ram.read_gb_s is 0, expected a number"},
      {R"({"ram": {"total_bytes": 1, "read_gb_s": "fast"}})", "expected a number above 0"},
      {R"({"ram": {"total_bytes": 1}, "cpu": {"n_cores": -2}})", "cpu.n_cores is -2"},
      {R"({"ram": {"total_bytes": 1}, "cpu": {"n_cores": 3000000000}})", "cpu.n_cores"},
      {R"({"ram": {"total_bytes": 1}, "cpu": {"n_cores": 4, "n_threads": 2}})", "cpu.n_threads"},
      {R"({"ram": {"total_bytes": 1}, "cpu": {"expert_gb_s": {"q4_0": -1}}})",
       "cpu.expert_gb_s.q4_0 is -1"},
      {R"({"ram": {"total_bytes": 1}, "disk": 7})", "disk is 7, expected an object"},
      {R"({"ram": {"total_bytes": 1}, "gpus": {}})", "gpus is {}, expected a list"},
      {R"({"ram": {"total_bytes": 1}, "gpus": [{}]})", "gpus[0].vram_total_bytes is missing"},
      {R"({"ram": {"total_bytes": 1}, "gpus": [{"vram_total_bytes": 1, "vram_free_bytes": 2}]})",
       "gpus[0].vram_free_bytes"},
      {R"({"ram": {"total_bytes": 1}, "key": {"cpu": 3}})", "key.cpu is 3, expected text"},
  };
  for (const auto& [text, words] : cases) {
    const auto machine = parse_machine(text);
    ASSERT_FALSE(machine) << text;
    EXPECT_EQ(machine.error().kind, ErrorKind::kInvalidData);
    EXPECT_NE(machine.error().message.find(words), std::string::npos) << machine.error().message;
  }
}

}  // namespace
}  // namespace penstock
