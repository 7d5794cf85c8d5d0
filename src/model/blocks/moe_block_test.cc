#include "model/blocks/moe_block.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpu/isa.h"

namespace penstock {
namespace {

constexpr int kExperts = 24;
constexpr int64_t kHidden = 64;
constexpr int64_t kExpertDim = 32;
constexpr const char* kPrefix = "layers.3.";
constexpr int kLayer = 3;  // the others have no experts
constexpr MoePart kPart = {.n_experts = kExperts, .top_k = 4, .expert_dim = kExpertDim};

// The block's tensors in one file: a router in float32 and experts of random Q4_0, all different.
class MoeBlockTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / fmt::format("penstock_moe_{}", ::getpid());
    std::normal_distribution<float> normal;
    std::vector<float> router(kExperts * kHidden);
    for (float& weight : router) weight = normal(random_);
    add("router", Format::kF32, kExperts, kHidden,
        std::string(reinterpret_cast<const char*>(router.data()), router.size() * sizeof(float)));
    for (int e = 0; e < kExperts; ++e) {
      const std::string expert = fmt::format("experts.{}.", e);
      add(expert + "gate", Format::kQ4_0, kExpertDim, kHidden, q4_0(kExpertDim, kHidden));
      add(expert + "up", Format::kQ4_0, kExpertDim, kHidden, q4_0(kExpertDim, kHidden));
      add(expert + "down", Format::kQ4_0, kHidden, kExpertDim, q4_0(kHidden, kExpertDim));
    }
    std::ofstream(path_, std::ios::binary) << bytes_;
    checkpoint_.files = {path_};
    checkpoint_.spec.layers.resize(kLayer + 1);
    checkpoint_.spec.moe.n_experts = kExperts;
    checkpoint_.spec.moe.top_k = kPart.top_k;
    h_.resize(static_cast<size_t>(kTokens * kHidden));
    for (float& number : h_) number = normal(random_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // y, and where the time went, of kGenerated generated tokens and a prompt's others.
  // n_slots: of experts that stay on disk; 0: none do.
  std::vector<float> forward(int n_threads, Isa isa, Precision precision, bool interleave,
                             Profile& profile, int64_t n_slots = 0) {
    Topology four;  // whatever the machine has
    for (int id = 0; id < 4; ++id) four.cpus.push_back({.id = id, .core = id});
    const auto pool = Pool::make({.n_threads = n_threads, .pin = false, .topology = four}).value();
    const WeightStore weights =
        WeightStore::load(checkpoint_, {.pool = pool.get(), .interleave = interleave}).value();
    const std::vector<Residency> residencies(kLayer + 1,
                                             n_slots > 0 ? Residency::kDisk : Residency::kPageable);
    const auto banks =
        BankStore::load(checkpoint_,
                        {.residencies = residencies, .pool = pool.get(), .interleave = interleave})
            .value();
    const auto cache =
        n_slots > 0
            ? ExpertCache::make(checkpoint_, ExpertLayout::make(checkpoint_).value(), n_slots)
                  .value()
            : nullptr;
    const MoeBlock block =
        MoeBlock::load({}, kPart, weights, kPrefix,
                       {.banks = banks.get(), .cache = cache.get(), .index = kLayer})
            .value();
    std::vector<FastActivations> activations;
    const Compute compute = {.pool = pool.get(),
                             .isa = isa,
                             .precision = precision,
                             .activations = &activations,
                             .profile = &profile,
                             .routing = &heard_};
    heard_.visits.clear();
    const std::vector<int32_t> ids(kTokens, 0);
    const std::array slices = {
        SequenceSlice{.tokens = std::span(ids).first(kGenerated),
                      .planned_length = kTokens,
                      .origin = TokenOrigin::kGenerated},
        SequenceSlice{.tokens = std::span(ids).subspan(kGenerated), .planned_length = kTokens}};
    const StepTokens step(compute, {}, slices);
    std::vector<float> y(h_.size());
    MoeBlock::Buffers buffers;
    const Result<void> done = block.forward(compute, step, buffers,
                                            dense_rows(std::as_const(h_).data(), kTokens, kHidden),
                                            dense_rows(y.data(), kTokens, kHidden), {});
    EXPECT_TRUE(done) << done.error().message;
    if (cache) counts_ = cache->counts();
    return y;
  }

  static constexpr int64_t kTokens = 60;
  static constexpr int64_t kGenerated = 11;

 private:
  void add(const std::string& name, Format format, int64_t rows, int64_t cols,
           const std::string& data) {
    checkpoint_.tensors[std::string(kPrefix) + name] = {
        .format = format,
        .rows = rows,
        .cols = cols,
        .data = {.file = 0, .offset = bytes_.size(), .bytes = data.size()}};
    bytes_ += data;
  }
  // Blocks of a modest f16 scale and 32 codes.
  std::string q4_0(int64_t rows, int64_t cols) {
    std::string blocks(*data_bytes(Format::kQ4_0, rows, cols), '\0');
    for (char& byte : blocks) byte = static_cast<char>(random_());
    for (size_t at = 0; at < blocks.size(); at += 18) {
      const auto half = static_cast<uint16_t>((random_() & 0x83FF) | 11 << 10);
      std::memcpy(&blocks[at], &half, sizeof half);
    }
    return blocks;
  }

  std::mt19937 random_{5};
  std::filesystem::path path_;
  std::string bytes_;
  Checkpoint checkpoint_;
  std::vector<float> h_;

 protected:
  struct Heard final : RoutingObserver {
    void begin_step(int64_t /*n_prompt*/, int64_t /*n_generated*/) override {}
    void visit(int layer, std::span<const int> experts) override {
      visits.emplace_back(layer, std::vector(experts.begin(), experts.end()));
    }
    std::vector<std::pair<int, std::vector<int>>> visits = {};
  };

  ExpertCounts counts_;  // of the last forward from disk
  Heard heard_;          // in the last forward
};

// Where experts are when they are wanted is no part of what they compute: with all in slots, with
// so few slots that a layer takes many waves, and with one.
TEST_F(MoeBlockTest, ExpertsFromDiskGiveTheSameBits) {
  for (const Isa isa : supported_isas()) {
    for (const Precision precision : {Precision::kExact, Precision::kFast}) {
      Profile profile;
      const std::vector<float> expected = forward(2, isa, precision, false, profile);
      for (const int64_t n_slots : {100, 24, 17, 5, 1}) {
        EXPECT_EQ(forward(2, isa, precision, false, profile, n_slots), expected)
            << to_string(isa) << ' ' << to_string(precision) << ", " << n_slots << " slots";
        EXPECT_EQ(counts_.n_misses, kExperts);
        EXPECT_EQ(counts_.n_hits, 0);
      }
    }
  }
}

// All 24 of this layer, once and in order, also where it takes many waves.
TEST_F(MoeBlockTest, TheObserverHearsOfEachExpertOnce) {
  std::vector<int> all(kExperts);
  for (int e = 0; e < kExperts; ++e) all[static_cast<size_t>(e)] = e;
  for (const int64_t n_slots : {0, 5}) {
    Profile profile;
    forward(2, Isa::kScalar, Precision::kExact, false, profile, n_slots);
    EXPECT_EQ(heard_.visits, (decltype(heard_.visits){{kLayer, all}}));
  }
}

// Who runs an expert is no part of what it computes. All 24 are visited: enough for one and for two
// workers to run them as wholes, too few for four.
TEST_F(MoeBlockTest, WholeExpertsAndSharedOnesGiveTheSameBits) {
  for (const Isa isa : supported_isas()) {
    for (const Precision precision : {Precision::kExact, Precision::kFast}) {
      Profile shared;
      const std::vector<float> expected = forward(4, isa, precision, false, shared);
      EXPECT_EQ(shared.of(Operation::kExpertDown).n_calls, 1);
      EXPECT_EQ(shared.of(Operation::kWholeExperts).n_calls, 0);
      EXPECT_TRUE(std::ranges::any_of(expected, [](float y) { return y != 0; }));
      for (const int n_threads : {1, 2}) {
        for (const bool interleave : {false, true}) {
          Profile whole;
          EXPECT_EQ(forward(n_threads, isa, precision, interleave, whole), expected)
              << to_string(isa) << ' ' << to_string(precision) << ", " << n_threads << " threads";
          EXPECT_EQ(whole.of(Operation::kExpertDown).n_calls, 0);
          const OperationTotals& of_whole = whole.of(Operation::kWholeExperts);
          EXPECT_EQ(of_whole.n_calls, 1);
          EXPECT_EQ(of_whole.work.bytes, shared.of(Operation::kExpertGateUp).work.bytes +
                                             shared.of(Operation::kExpertDown).work.bytes);
          EXPECT_EQ(of_whole.work.operations,
                    shared.of(Operation::kExpertGateUp).work.operations +
                        shared.of(Operation::kExpertDown).work.operations);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock
