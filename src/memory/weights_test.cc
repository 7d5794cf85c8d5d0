#include "memory/weights.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace penstock {
namespace {

// A made-up checkpoint: one file of 4096 bytes whose byte i is i % 251, with an f32 vector at an
// odd offset.
class WeightStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / fmt::format("penstock_weights_{}", ::getpid());
    std::string bytes(4096, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
    const std::vector<float> vector = {1.5F, -2.0F, 0.25F};
    std::memcpy(bytes.data() + kVectorAt, vector.data(), 12);
    std::ofstream(path_, std::ios::binary) << bytes;

    checkpoint_.files = {path_};
    checkpoint_.tensors["layers.0.q"] = {.format = Format::kQ4_0,
                                         .rows = 2,
                                         .cols = 32,
                                         .data = {.file = 0, .offset = 7, .bytes = 36}};
    checkpoint_.tensors["final_norm"] = {.format = Format::kF32,
                                         .rows = 1,
                                         .cols = 3,
                                         .data = {.file = 0, .offset = kVectorAt, .bytes = 12}};
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static constexpr uint64_t kVectorAt = 1001;
  std::filesystem::path path_;
  Checkpoint checkpoint_;
};

class WeightStoreOfModeTest : public WeightStoreTest,
                              public testing::WithParamInterface<LoadMode> {};

TEST_P(WeightStoreOfModeTest, ViewsShowTheFilesBytes) {
  const auto store = WeightStore::load(checkpoint_, GetParam(), {});
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->mode(), GetParam());
  EXPECT_EQ(store->bytes(), 48u);

  const auto matrix = store->matrix("layers.0.q");
  ASSERT_TRUE(matrix);
  ASSERT_EQ(matrix->data.size(), 36u);
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(matrix->data[i], static_cast<std::byte>((7 + i) % 251));
  EXPECT_EQ(store->vector("final_norm", 3).value(), (std::vector<float>{1.5F, -2.0F, 0.25F}));
}

TEST_P(WeightStoreOfModeTest, AMissingTensorAndAWrongShapeAreNamed) {
  const auto store = WeightStore::load(checkpoint_, GetParam(), {});
  ASSERT_TRUE(store);
  EXPECT_NE(store->matrix("head").error().message.find("\"head\""), std::string::npos);
  EXPECT_NE(store->vector("final_norm", 4).error().message.find("expected a vector of 4"),
            std::string::npos);
}

TEST_P(WeightStoreOfModeTest, AFileThatIsGoneIsAnError) {
  checkpoint_.files = {path_.string() + ".gone"};
  const auto store = WeightStore::load(checkpoint_, GetParam(), {});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::kNotFound);
}

// The address lies on node 0 whatever was asked; the kernel remembers the wish.
TEST_F(WeightStoreTest, WhatIsReadGoesToTheGivenNodes) {
  const auto policy_of = [](const WeightStore& store) {
    int mode = -1;
    const std::byte* const address = store.matrix("layers.0.q").value().data.data();
    ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, MPOL_F_ADDR);
    return mode;
  };
  const auto by_default = WeightStore::load(checkpoint_, LoadMode::kRead, {});
  if (policy_of(*by_default) < 0) GTEST_SKIP() << "this container forbids NUMA policies";
  EXPECT_EQ(policy_of(*by_default), MPOL_DEFAULT);
  const auto placed = WeightStore::load(checkpoint_, LoadMode::kRead, {}, std::array{0, 1});
  EXPECT_EQ(policy_of(*placed), MPOL_INTERLEAVE);
  EXPECT_EQ(placed->note(), "");
}

TEST_F(WeightStoreTest, ARefusedNodeIsANoteNotAFailure) {
  const auto store = WeightStore::load(checkpoint_, LoadMode::kRead, {}, std::array{100'000});
  ASSERT_TRUE(store);
  EXPECT_EQ(store->vector("final_norm", 3).value(), (std::vector<float>{1.5F, -2.0F, 0.25F}));
  EXPECT_NE(store->note().find("NUMA"), std::string::npos);
}

TEST(WeightStore, AFileThatShrankAfterItWasOpenedIsAnError) {
  Checkpoint checkpoint;
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("penstock_short_{}", ::getpid());
  std::ofstream(path, std::ios::binary) << std::string(100, 'x');
  checkpoint.files = {path};
  checkpoint.tensors["head"] = {.format = Format::kF32,
                                .rows = 1,
                                .cols = 50,
                                .data = {.file = 0, .offset = 0, .bytes = 200}};
  EXPECT_FALSE(WeightStore::load(checkpoint, LoadMode::kRead, {}));
  EXPECT_FALSE(WeightStore::load(checkpoint, LoadMode::kMap, {}));
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Modes, WeightStoreOfModeTest,
                         testing::Values(LoadMode::kRead, LoadMode::kMap), [](const auto& test) {
                           return test.param == LoadMode::kRead ? "Read" : "Map";
                         });

}  // namespace
}  // namespace penstock
