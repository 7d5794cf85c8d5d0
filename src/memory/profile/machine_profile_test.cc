#include "memory/profile/machine_profile.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/units.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

MachineProfile profile() {
  MachineProfile profile = {.date = "2026-11-30 22:24",
                            .effort = "full",
                            .version = "0.1.0",
                            .read_gb_s_by_threads = {{"1", 14.5}, {"2", 29.5}},
                            .rested_read_gb_s = 8.1,
                            .disk_folder = "/models"};
  Machine& machine = profile.machine;
  machine.key = {.cpu = "X, 2 threads", .memory = "24 GiB", .kernel = "6.1"};
  machine.ram = {.total_bytes = 24 * kGiB, .available_bytes = 20 * kGiB, .read_gb_s = 29.5};
  machine.cpu = {.n_cores = 2,
                 .n_threads = 2,
                 .expert_gb_s = {{"q4_0", 24.5}},
                 .attention_gb_s = 12,
                 .prefill_tflop_s = 3};
  machine.disk = {.sequential_gb_s = 2, .random_gb_s = 1.5, .small_reads_a_s = 9e4};
  return profile;
}

class ProfileFile : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "cache/penstock/machine.json"; }
  void write(const std::string& text) const { folder_.write("cache/penstock/machine.json", text); }

  FakeRoot folder_;
};

TEST_F(ProfileFile, ComesBackWholeAndAlone) {
  ASSERT_TRUE(save_profile(profile(), path()));
  MachineProfile later = profile();
  later.date = "2026-12-01 08:00";
  ASSERT_TRUE(save_profile(later, path()));
  const FoundProfile found = find_profile(path(), later.machine.key);
  EXPECT_EQ(found.profile, later) << found.note;
  EXPECT_EQ(found.note, "");
  const std::filesystem::directory_iterator files(path().parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ProfileFile, NoneIsNoNews) {
  const FoundProfile found = find_profile(path(), profile().machine.key);
  EXPECT_EQ(found.profile, std::nullopt);
  EXPECT_EQ(found.note, "");
  EXPECT_EQ(find_profile({}, {}).note, "");
}

TEST_F(ProfileFile, AnotherMachinesIsNotBelieved) {
  ASSERT_TRUE(save_profile(profile(), path()));
  for (std::string MachineKey::* part : {&MachineKey::cpu, &MachineKey::memory, &MachineKey::link,
                                         &MachineKey::driver, &MachineKey::kernel}) {
    MachineKey other = profile().machine.key;
    other.*part += "!";
    const FoundProfile found = find_profile(path(), other);
    EXPECT_EQ(found.profile, std::nullopt);
    EXPECT_NE(found.note.find(path().string()), std::string::npos) << found.note;
    EXPECT_NE(found.note.find("is " + other.*part), std::string::npos) << found.note;
  }
}

TEST_F(ProfileFile, OneThatCannotBeReadIsNotBelieved) {
  const std::string whole = to_json(profile()).dump();
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"), std::string("{}"),
        std::string(R"({"machine": {"ram": {"total_bytes": 1}}})"),
        std::string(R"({"date": "x", "machine": {"ram": {"total_bytes": 1}}, "pace": 2})"),
        std::string(R"({"date": "x", "machine": {"ram": {"total_bytes": 1, "read_gb_s": -4}}})")}) {
    write(text);
    const FoundProfile found = find_profile(path(), {});
    EXPECT_EQ(found.profile, std::nullopt) << text;
    EXPECT_NE(found.note.find("not believed"), std::string::npos) << text;
    EXPECT_EQ(found.note.find('\n'), std::string::npos) << found.note;
  }
}

TEST_F(ProfileFile, AFolderThatCannotBeMadeIsAnError) {
  write("a file");
  EXPECT_FALSE(save_profile(profile(), path() / "machine.json"));
}

TEST(MachineProfile, RatesAreAdoptedAndNothingElse) {
  Machine now = {.ram = {.total_bytes = 16 * kGiB, .available_bytes = 3 * kGiB}};
  now.cpu.n_threads = 1;
  adopt_rates(profile(), now);
  EXPECT_EQ(now.ram.available_bytes, 3 * kGiB);
  EXPECT_EQ(now.ram.total_bytes, 16 * kGiB);
  EXPECT_EQ(now.cpu.n_threads, 1);
  EXPECT_EQ(now.ram.read_gb_s, 29.5);
  EXPECT_EQ(now.cpu.expert_gb_s.at("q4_0"), 24.5);
  EXPECT_EQ(now.cpu.attention_gb_s, 12);
  EXPECT_EQ(now.cpu.prefill_tflop_s, 3);
  EXPECT_EQ(now.disk, profile().machine.disk);
}

}  // namespace
}  // namespace penstock
