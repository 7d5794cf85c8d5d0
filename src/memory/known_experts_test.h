// A made-up mixture of experts, of which every byte says whose it is.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/checkpoint.h"
#include "memory/expert_layout.h"

namespace penstock {

// Of three layers the second is dense.
class KnownExpertsTest : public testing::Test {
 protected:
  static constexpr int kLayers = 3;
  static constexpr int kExperts = 12;
  enum class Order : uint8_t { kExpertByExpert, kMatrixByMatrix };  // as packs and as GGUFs have it

  void write(Order order, size_t first_offset) {
    path_ = std::filesystem::temp_directory_path() / fmt::format("penstock_experts_{}", ::getpid());
    checkpoint_ = {};
    checkpoint_.files = {path_};
    checkpoint_.spec.layers.resize(kLayers);
    checkpoint_.spec.moe.n_experts = kExperts;
    checkpoint_.spec.moe.top_k = 2;
    std::string bytes(first_offset, '?');
    const auto add = [&](int layer, int index, int matrix) {
      constexpr const char* kMatrices[] = {"gate", "up", "down"};
      // Sizes that are no multiple of anything a disk wants.
      const std::string data(static_cast<size_t>(3000 + 700 * matrix),
                             static_cast<char>(mark(layer, index, matrix)));
      checkpoint_.tensors[fmt::format("layers.{}.experts.{}.{}", layer, index, kMatrices[matrix])] =
          {.format = Format::kF16,
           .rows = 10,
           .cols = std::ssize(data) / 20,
           .data = {.file = 0, .offset = bytes.size(), .bytes = data.size()}};
      bytes += data;
    };
    for (const int layer : {0, 2}) {
      for (int outer = 0; outer < (order == Order::kExpertByExpert ? kExperts : 3); ++outer) {
        for (int inner = 0; inner < (order == Order::kExpertByExpert ? 3 : kExperts); ++inner) {
          order == Order::kExpertByExpert ? add(layer, outer, inner) : add(layer, inner, outer);
        }
      }
    }
    checkpoint_.tensors["layers.1.gate"] = {.rows = 1, .cols = 1};
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static int mark(int layer, int index, int matrix) { return 1 + layer * 40 + index * 3 + matrix; }

  static void expect_expert(const ExpertMatrices& matrices, int layer, int index) {
    const MatrixView* const all[] = {&matrices.gate, &matrices.up, &matrices.down};
    for (int m = 0; m < 3; ++m) {
      const auto expected = static_cast<std::byte>(mark(layer, index, m));
      EXPECT_EQ(all[m]->data.size(), static_cast<size_t>(3000 + 700 * m));
      EXPECT_TRUE(std::ranges::all_of(all[m]->data, [&](std::byte b) { return b == expected; }))
          << layer << ' ' << index << ' ' << m;
    }
  }

  std::filesystem::path path_;
  Checkpoint checkpoint_;
};

}  // namespace penstock
