#include "memory/weights.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/test_numbers_test.h"
#include "os/file.h"
#include "tensor/codec.h"

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

class WeightStoreOfModeTest : public WeightStoreTest, public testing::WithParamInterface<bool> {};

TEST_P(WeightStoreOfModeTest, ViewsShowTheFilesBytes) {
  const auto store = WeightStore::load(checkpoint_, {.map_files = GetParam()});
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->bytes(), 48u);

  const auto matrix = store->matrix("layers.0.q");
  ASSERT_TRUE(matrix);
  ASSERT_EQ(matrix->data.size(), 36u);
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(matrix->data[i], static_cast<std::byte>((7 + i) % 251));
  EXPECT_EQ(store->vector("final_norm", 3).value(), (std::vector<float>{1.5F, -2.0F, 0.25F}));
}

TEST_P(WeightStoreOfModeTest, RunsAreTheWeightsWithoutWhatLiesBetweenThem) {
  const auto store = WeightStore::load(checkpoint_, {.map_files = GetParam()});
  ASSERT_TRUE(store) << store.error().message;
  const auto runs = store->runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].size(), 36u);
  EXPECT_EQ(runs[0].front(), std::byte{7});
  EXPECT_EQ(runs[1].size(), 12u);
}

TEST_P(WeightStoreOfModeTest, AMissingTensorAndAWrongShapeAreNamed) {
  const auto store = WeightStore::load(checkpoint_, {.map_files = GetParam()});
  ASSERT_TRUE(store);
  EXPECT_NE(store->matrix("head").error().message.find("\"head\""), std::string::npos);
  EXPECT_NE(store->vector("final_norm", 4).error().message.find("expected a vector of 4"),
            std::string::npos);
}

TEST_P(WeightStoreOfModeTest, AFileThatIsGoneIsAnError) {
  checkpoint_.files = {path_.string() + ".gone"};
  const auto store = WeightStore::load(checkpoint_, {.map_files = GetParam()});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::kNotFound);
}

// Of a pack's regions those with weights are read whole and compared; the others may hold anything.
TEST_F(WeightStoreTest, ChecksumsOfWhatIsReadAreCompared) {
  std::string bytes = read_whole_file(path_, 4096).value();
  const auto region = [&](std::string name, uint64_t offset, uint64_t size) {
    return Region{std::move(name), {0, offset, size}, XXH3_64bits(bytes.data() + offset, size)};
  };
  checkpoint_.regions = {region("q", 0, 1000), region("norm", 1000, 24),
                         region("rest", 1024, 3072)};
  checkpoint_.regions[2].xxh3 ^= 1;
  const auto pool = Pool::make({.n_threads = 2}).value();
  for (Pool* workers : {pool.get(), static_cast<Pool*>(nullptr)}) {
    const WeightOptions options = {.pool = workers};
    const auto store = WeightStore::load(checkpoint_, options);
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_TRUE(store->loading().is_verified);
    EXPECT_EQ(store->vector("final_norm", 3).value(), (std::vector<float>{1.5F, -2.0F, 0.25F}));

    ++checkpoint_.regions[1].xxh3;  // as if a byte between its tensors were another
    const auto damaged = WeightStore::load(checkpoint_, options);
    ASSERT_FALSE(damaged);
    EXPECT_EQ(damaged.error().kind, ErrorKind::kInvalidData);
    EXPECT_NE(damaged.error().message.find(path_.string() + ": norm has checksum"),
              std::string::npos);
    --checkpoint_.regions[1].xxh3;
  }
  EXPECT_FALSE(WeightStore::load(checkpoint_, {.map_files = true})->loading().is_verified);
}

// The address lies on node 0 whatever was asked; the kernel remembers the wish.
TEST_F(WeightStoreTest, WhatIsReadGoesToTheGivenNodes) {
  const auto policy_of = [](const WeightStore& store) {
    int mode = -1;
    const std::byte* const address = store.matrix("layers.0.q").value().data.data();
    ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, MPOL_F_ADDR);
    return mode;
  };
  const auto by_default = WeightStore::load(checkpoint_, {});
  if (policy_of(*by_default) < 0) GTEST_SKIP() << "this container forbids NUMA policies";
  EXPECT_EQ(policy_of(*by_default), MPOL_DEFAULT);
  constexpr std::array kNodes = {0, 1};
  const auto placed = WeightStore::load(checkpoint_, {.nodes = kNodes});
  EXPECT_EQ(policy_of(*placed), MPOL_INTERLEAVE);
  EXPECT_EQ(placed->note(), "");
}

TEST_F(WeightStoreTest, ARefusedNodeIsANoteNotAFailure) {
  constexpr std::array kNodes = {100'000};
  const auto store = WeightStore::load(checkpoint_, {.nodes = kNodes});
  ASSERT_TRUE(store);
  EXPECT_EQ(store->vector("final_norm", 3).value(), (std::vector<float>{1.5F, -2.0F, 0.25F}));
  EXPECT_NE(store->note().find("NUMA"), std::string::npos);
}

// Whatever can be is interleaved, and still means the same: block 0 of a row has the scale and the
// codes it was stored with. An embedding beside a head stays as it is.
TEST_F(WeightStoreTest, MatricesThatAreReadAreInterleavedWhereAsked) {
  const Extent sixteen_rows = {.file = 0, .offset = 7, .bytes = 16 * 18};
  const StoredTensor q4_0 = {.format = Format::kQ4_0, .rows = 16, .cols = 32, .data = sixteen_rows};
  checkpoint_.tensors["layers.0.k"] = q4_0;
  checkpoint_.tensors["layers.0.k"].data.offset = 400;
  checkpoint_.tensors["head"] = q4_0;
  checkpoint_.tensors["head"].data.offset = 1200;
  checkpoint_.tensors["embed"] = q4_0;
  checkpoint_.tensors["embed"].data.offset = 1600;
  const auto pool = Pool::make({.n_threads = 2}).value();
  const auto plain = WeightStore::load(checkpoint_, {}).value();
  const auto store =
      WeightStore::load(checkpoint_, {.pool = pool.get(), .interleave = true}).value();
  EXPECT_FALSE(plain.is_interleaved());
  EXPECT_TRUE(store.is_interleaved());
  const auto layout = [&](std::string_view name) { return store.matrix(name).value().layout; };
  EXPECT_EQ(layout("layers.0.k"), Layout::kInterleaved);
  EXPECT_EQ(layout("head"), Layout::kInterleaved);
  EXPECT_EQ(layout("embed"), Layout::kRows);
  EXPECT_EQ(layout("layers.0.q"), Layout::kRows);  // two rows are no panel
  for (const char* name : {"layers.0.k", "layers.0.q", "head", "embed"}) {
    const MatrixView found = store.matrix(name).value();
    const MatrixView expected = plain.matrix(name).value();
    std::vector<float> of_found(32), of_expected(32);
    for (int64_t row = 0; row < found.rows; ++row) {
      widen_row(found, row, of_found);
      widen_row(expected, row, of_expected);
      EXPECT_TRUE(same_bits(of_found, of_expected)) << name << ' ' << row;
    }
  }
  const auto mapped =
      WeightStore::load(checkpoint_, {.map_files = true, .pool = pool.get(), .interleave = true})
          .value();
  EXPECT_FALSE(mapped.is_interleaved());
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
  EXPECT_FALSE(WeightStore::load(checkpoint, {}));
  EXPECT_FALSE(WeightStore::load(checkpoint, {.map_files = true}));
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Modes, WeightStoreOfModeTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Map" : "Read"; });

}  // namespace
}  // namespace penstock
