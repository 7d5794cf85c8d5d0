#include "kernels/attention/attention_fast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "kernels/test_numbers_test.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint16_t kBf16Nan = 0x7FC0;

enum class Numbers {
  kNormal,
  kLargeScores,  // most weights are flushed to nothing
  kEqualKeys,    // all weights are the same
  kOneHugeKey,   // one position takes all, or nothing
  kRisingKeys,   // every page has a new maximum
};

struct Case {
  AttentionShape shape;
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  Numbers numbers = Numbers::kNormal;
  bool has_sinks = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.shape.n_heads << "/" << c.shape.n_kv_heads << " heads of " << c.shape.head_dim
       << ", window " << c.shape.window << ", " << c.n_tokens << " tokens from " << c.first_position
       << ", numbers " << static_cast<int>(c.numbers) << (c.has_sinks ? ", sinks" : "");
}

// A sequence whose pages lie in shuffled places. What no token sees is NaN, and a page of nothing
// else is null.
class Sequence {
 public:
  explicit Sequence(const Case& c, uint32_t placement_seed = 1)
      : c_(c),
        q_(random_floats(c.n_tokens * c.shape.n_heads * c.shape.head_dim, 1,
                         c.numbers == Numbers::kLargeScores ? 60.0F : 1.0F)) {
    if (c.has_sinks) sinks_ = random_floats(c.shape.n_heads, 2, 2.0F);
    place_pages(placement_seed);
    const int64_t row = int64_t{c.shape.n_kv_heads} * c.shape.head_dim;
    auto keys = random_floats(n_positions() * row, 3);
    const auto values = random_floats(n_positions() * row, 4);
    shape_keys(keys);
    for (int64_t j = first_seen(); j < n_positions(); ++j) {
      const auto p = static_cast<size_t>(j / kPageTokens);
      const auto part = [&](const std::vector<float>& all) {
        return std::span(all).subspan(static_cast<size_t>(j * row), static_cast<size_t>(row));
      };
      write_kv_bf16(c.shape, j % kPageTokens, part(keys), part(values),
                    const_cast<uint16_t*>(keys_[p]), const_cast<uint16_t*>(values_[p]));
    }
  }

  const Case& spec() const { return c_; }
  const AttentionShape& shape() const { return c_.shape; }
  int64_t n_positions() const { return c_.first_position + c_.n_tokens; }
  std::span<const float> sinks() const { return sinks_; }
  PagedKvBf16 kv() const { return {keys_, values_}; }
  Rows<const float> q() const {
    return dense_rows(q_.data(), c_.n_tokens, int64_t{c_.shape.n_heads} * c_.shape.head_dim);
  }
  double key(int64_t j, int64_t kv_head, int64_t d) const {
    const int64_t head = kv_head * kPageTokens * c_.shape.head_dim;
    return bf16_to_f32(keys_[static_cast<size_t>(j / kPageTokens)]
                            [head + key_place(c_.shape.head_dim, j % kPageTokens, d)]);
  }
  double value(int64_t j, int64_t kv_head, int64_t d) const {
    const int64_t pair = kv_head * kPageTokens / 2 + j % kPageTokens / 2;
    return bf16_to_f32(
        values_[static_cast<size_t>(j / kPageTokens)][(pair * c_.shape.head_dim + d) * 2 + j % 2]);
  }

 private:
  int64_t first_seen() const {
    return c_.shape.window > 0 ? std::max<int64_t>(0, c_.first_position - c_.shape.window + 1) : 0;
  }

  void place_pages(uint32_t seed) {
    const auto page = static_cast<size_t>(c_.shape.n_kv_heads * kPageTokens * c_.shape.head_dim);
    const auto n_pages = static_cast<size_t>(pages_for(n_positions()));
    store_.assign(2 * n_pages * page, kBf16Nan);
    std::vector<size_t> places(2 * n_pages);
    for (size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::shuffle(places.begin(), places.end(), std::mt19937(seed));
    for (size_t p = 0; p < n_pages; ++p) {
      const bool is_seen = static_cast<int64_t>(p) >= first_seen() / kPageTokens;
      keys_.push_back(is_seen ? store_.data() + places[2 * p] * page : nullptr);
      values_.push_back(is_seen ? store_.data() + places[2 * p + 1] * page : nullptr);
    }
  }

  void shape_keys(std::vector<float>& keys) const {
    const int64_t row = int64_t{c_.shape.n_kv_heads} * c_.shape.head_dim;
    for (int64_t j = 0; j < n_positions(); ++j) {
      for (int64_t i = 0; i < row; ++i) {
        float& key = keys[static_cast<size_t>(j * row + i)];
        if (c_.numbers == Numbers::kEqualKeys) key = keys[static_cast<size_t>(i)];
        if (c_.numbers == Numbers::kOneHugeKey && j == n_positions() / 2) key *= 1e4F;
        if (c_.numbers == Numbers::kRisingKeys) key *= static_cast<float>(j) / 16;
      }
    }
  }

  Case c_;
  std::vector<float> q_;
  std::vector<float> sinks_;
  std::vector<uint16_t> store_;
  std::vector<const uint16_t*> keys_;
  std::vector<const uint16_t*> values_;
};

std::vector<float> empty_result(const Sequence& s) {
  return std::vector<float>(static_cast<size_t>(s.q().n_rows * s.q().cols), kNan);
}

void attend(const Sequence& s, Isa isa, Range tokens, Range heads, std::vector<float>& y) {
  std::vector<float> scratch(attention_fast_scratch_floats(s.shape(), tokens.size()), kNan);
  const auto q = s.q();
  attention_fast(isa, s.shape(), heads, {q.row(tokens.begin), tokens.size(), q.cols, q.stride},
                 s.spec().first_position + tokens.begin, s.kv(), s.sinks(), scratch,
                 {y.data() + tokens.begin * q.cols, tokens.size(), q.cols, q.cols});
}

std::vector<float> attend_at_once(const Sequence& s, Isa isa) {
  auto y = empty_result(s);
  attend(s, isa, {0, s.q().n_rows}, {0, s.shape().n_heads}, y);
  return y;
}

// The contract's formula in float64, without online rescaling, from the same bf16 numbers; and how
// far a float32 answer may be from it.
struct Expected {
  std::vector<double> y;
  std::vector<double> tolerance;
};

// u = 2^-24 is float32's half unit, 2^-8 bf16's. A score adds head_dim products, each within u of
// its share of sum|a k|; subtracting the maximum adds u |s - m|, at most 126 u where the weight is
// not flushed; exp2_fast adds 2^-18. Each page may rescale, by a factor within 2^-18, and rounds
// once more; each key adds once. All of that counts twice, for o and for l; rounding a weight to
// bf16 counts for o alone. Each error is relative to a term of sum_j w_j |v_j|. Weights flushed to
// nothing are below 2^-126.
double relative_error(double score_size, int64_t head_dim, int64_t n_keys) {
  const double u = std::ldexp(1.0, -24);
  const double exp2_error = std::ldexp(1.0, -18);
  const double score_error = u * (static_cast<double>(head_dim) * score_size + 126);
  const double weight_error = std::expm1(std::numbers::ln2 * 2 * score_error) + exp2_error;
  const int64_t n_pages = n_keys / kPageTokens + 2;
  const double sum_error =
      static_cast<double>(n_keys) * u + static_cast<double>(n_pages) * (exp2_error + u);
  return std::ldexp(1.0, -8) + 2 * (weight_error + sum_error);
}

void expect_row(const Sequence& s, int64_t t, int64_t h, double* y, double* tolerance) {
  const AttentionShape& shape = s.shape();
  const int64_t kv_head = h / (shape.n_heads / shape.n_kv_heads);
  const int64_t i = s.spec().first_position + t;
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, i - shape.window + 1) : 0;
  const float c = shape.scale * std::numbers::log2e_v<float>;
  std::vector<double> weights;
  double max = s.sinks().empty() ? -std::numeric_limits<double>::infinity()
                                 : s.sinks()[static_cast<size_t>(h)] * std::numbers::log2e;
  const double sink = max;
  double score_size = 0;
  for (int64_t j = first; j <= i; ++j) {
    double score = 0;
    double size = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      const double a = bf16_to_f32(f32_to_bf16(c * s.q().row(t)[h * shape.head_dim + d]));
      score += a * s.key(j, kv_head, d);
      size += std::abs(a * s.key(j, kv_head, d));
    }
    weights.push_back(score);
    max = std::max(max, score);
    score_size = std::max(score_size, size);
  }
  double sum = std::exp2(sink - max);
  for (double& w : weights) sum += w = std::exp2(w - max);
  const double error = relative_error(score_size, shape.head_dim, i + 1 - first);
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    double size = 0;
    y[d] = 0;
    for (int64_t j = first; j <= i; ++j) {
      const double term = weights[static_cast<size_t>(j - first)] * s.value(j, kv_head, d) / sum;
      y[d] += term;
      size += std::abs(term);
    }
    tolerance[d] = error * size + 1e-30;
  }
}

Expected expect(const Sequence& s) {
  const auto n = static_cast<size_t>(s.q().n_rows * s.q().cols);
  Expected expected = {std::vector<double>(n), std::vector<double>(n)};
  for (int64_t t = 0; t < s.q().n_rows; ++t) {
    for (int64_t h = 0; h < s.shape().n_heads; ++h) {
      const auto at = static_cast<size_t>(t * s.q().cols + h * s.shape().head_dim);
      expect_row(s, t, h, &expected.y[at], &expected.tolerance[at]);
    }
  }
  return expected;
}

class AttentionFast : public testing::TestWithParam<Case> {};

TEST_P(AttentionFast, EveryIsaIsWithinTheRoundingsOfFloat64) {
  const Sequence s(GetParam());
  const Expected expected = expect(s);
  for (const Isa isa : supported_isas()) {
    const auto y = attend_at_once(s, isa);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected.y[i], expected.tolerance[i]) << to_string(isa) << " at " << i;
    }
  }
}

TEST_P(AttentionFast, ScalarAvx2AndAvx512GiveTheSameBits) {
  const Sequence s(GetParam());
  const auto expected = attend_at_once(s, Isa::kScalar);
  for (const Isa isa : supported_isas()) {
    if (isa > Isa::kAvx512) continue;
    EXPECT_TRUE(same_bits(attend_at_once(s, isa), expected)) << to_string(isa);
  }
}

TEST_P(AttentionFast, SplitsOfTokensAndHeadsChangeNoBit) {
  const Sequence s(GetParam());
  const int64_t n_heads = s.shape().n_heads;
  const int64_t group = n_heads / s.shape().n_kv_heads;
  for (const Isa isa : supported_isas()) {
    const auto expected = attend_at_once(s, isa);
    std::mt19937 random(11);
    for (int round = 0; round < 6; ++round) {
      auto y = empty_result(s);
      for (int64_t t = 0; t < s.q().n_rows;) {
        // The first round goes token by token, as decode does.
        const int64_t step = round == 0 ? 1 : 1 + static_cast<int64_t>(random() % 40);
        const int64_t end = std::min(t + step, s.q().n_rows);
        for (int64_t h = 0; h < n_heads;) {
          const int64_t n = group * (1 + static_cast<int64_t>(random()) % s.shape().n_kv_heads);
          const int64_t last = std::min(h + n, n_heads);
          attend(s, isa, {t, end}, {h, last}, y);
          h = last;
        }
        t = end;
      }
      ASSERT_TRUE(same_bits(y, expected)) << to_string(isa) << " round " << round;
    }
  }
}

TEST_P(AttentionFast, PagesMayLieAnywhere) {
  for (const Isa isa : supported_isas()) {
    const auto expected = attend_at_once(Sequence(GetParam(), 1), isa);
    EXPECT_TRUE(same_bits(attend_at_once(Sequence(GetParam(), 100), isa), expected));
  }
}

TEST_P(AttentionFast, OnlyTheColumnsOfItsHeadsAreWritten) {
  const Sequence s(GetParam());
  const int64_t group = s.shape().n_heads / s.shape().n_kv_heads;
  const Range columns = {0, group * s.shape().head_dim};
  for (const Isa isa : supported_isas()) {
    const auto whole = attend_at_once(s, isa);
    auto y = empty_result(s);
    attend(s, isa, {0, s.q().n_rows}, {0, group}, y);
    for (size_t i = 0; i < y.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) % s.q().cols;
      if (column < columns.end) {
        ASSERT_EQ(y[i], whole[i]) << to_string(isa) << " at " << i;
      } else {
        ASSERT_TRUE(std::isnan(y[i])) << to_string(isa) << " at " << i;
      }
    }
  }
}

AttentionShape shape(int n_heads, int n_kv_heads, int head_dim, int64_t window = 0) {
  return {n_heads, n_kv_heads, head_dim, 1.0F / std::sqrt(static_cast<float>(head_dim)), window};
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionFast,
    testing::Values(Case{shape(1, 1, 64), 0, 1}, Case{shape(3, 1, 64), 0, 2},
                    Case{shape(9, 3, 64), 0, 70}, Case{shape(9, 3, 64), 63, 1},
                    Case{shape(9, 3, 64), 64, 1}, Case{shape(9, 3, 64), 62, 5},
                    Case{shape(8, 1, 128), 199, 1}, Case{shape(8, 2, 128), 127, 17},
                    Case{shape(4, 4, 96), 33, 31}, Case{shape(6, 2, 256), 109, 20},
                    Case{shape(4, 4, 80), 63, 37}, Case{shape(4, 1, 33), 120, 30},
                    Case{shape(2, 1, 7), 5, 3}, Case{shape(24, 1, 32), 190, 11},
                    Case{shape(130, 1, 32), 60, 3}, Case{shape(5, 5, 160), 64, 64}));

INSTANTIATE_TEST_SUITE_P(
    WindowsAndSinks, AttentionFast,
    testing::Values(Case{shape(4, 2, 32, 1), 0, 70}, Case{shape(4, 2, 64, 17), 150, 70},
                    Case{shape(3, 1, 128, 64), 160, 65}, Case{shape(3, 1, 96, 65), 191, 2},
                    Case{shape(4, 1, 33, 100), 250, 7}, Case{shape(2, 1, 64, 1000), 0, 70},
                    Case{shape(8, 1, 64, 5), 60, 10}, Case{shape(1, 1, 64, 33), 300, 1},
                    Case{shape(4, 2, 64), 100, 40, Numbers::kNormal, true},
                    Case{shape(8, 1, 80, 20), 100, 40, Numbers::kNormal, true},
                    Case{shape(8, 1, 128, 70), 255, 3, Numbers::kNormal, true}));

INSTANTIATE_TEST_SUITE_P(
    ExtremeNumbers, AttentionFast,
    testing::Values(Case{shape(6, 2, 64), 250, 50, Numbers::kLargeScores},
                    Case{shape(4, 1, 128), 250, 1, Numbers::kLargeScores, true},
                    Case{shape(4, 2, 33), 130, 20, Numbers::kLargeScores},
                    Case{shape(3, 1, 64), 100, 70, Numbers::kEqualKeys},
                    Case{shape(3, 1, 128), 600, 1, Numbers::kEqualKeys},
                    Case{shape(4, 1, 64), 100, 64, Numbers::kOneHugeKey},
                    Case{shape(4, 1, 96), 500, 1, Numbers::kOneHugeKey, true},
                    Case{shape(4, 2, 64), 250, 70, Numbers::kRisingKeys},
                    Case{shape(8, 1, 128, 90), 300, 33, Numbers::kRisingKeys, true}));

// One sink so high that nothing else weighs.
TEST(AttentionFastSinks, AHighSinkTakesAll) {
  Case c = {shape(2, 1, 32), 0, 20};
  const Sequence s(c);
  const std::vector<float> sinks = {300.0F, -300.0F};
  for (const Isa isa : supported_isas()) {
    std::vector<float> scratch(attention_fast_scratch_floats(c.shape, 20));
    auto y = empty_result(s);
    attention_fast(isa, c.shape, {0, 2}, s.q(), 0, s.kv(), sinks, scratch,
                   dense_rows(y.data(), 20, 64));
    const auto plain = attend_at_once(s, isa);
    for (size_t t = 0; t < 20; ++t) {
      for (size_t d = 0; d < 32; ++d) EXPECT_EQ(y[t * 64 + d], 0.0F);
      for (size_t d = 32; d < 64; ++d) EXPECT_EQ(y[t * 64 + d], plain[t * 64 + d]);
    }
  }
}

TEST(AttentionFastScratch, IsEnoughForTheLargestBlockAndStopsThere) {
  const AttentionShape wide = shape(32, 4, 128);
  EXPECT_LT(attention_fast_scratch_floats(wide, 1), attention_fast_scratch_floats(wide, 16));
  EXPECT_EQ(attention_fast_scratch_floats(wide, 16), attention_fast_scratch_floats(wide, 4096));
}

TEST(WriteKvBf16, PutsEachNumberWhereTheLayoutSays) {
  const AttentionShape s = shape(3, 3, 5);
  const auto page = static_cast<size_t>(3 * kPageTokens * 5);
  std::vector<uint16_t> keys(page, kBf16Nan);
  std::vector<uint16_t> values(page, kBf16Nan);
  const auto number = [](int64_t slot, int64_t h, int64_t d) {
    return static_cast<float>(slot + 64 * h) / 256 + static_cast<float>(d);
  };
  const std::vector<int64_t> slots = {7, 0, 6, 63};
  for (const int64_t slot : slots) {
    std::vector<float> k(15);
    std::vector<float> v(15);
    for (int64_t i = 0; i < 15; ++i) {
      k[static_cast<size_t>(i)] = number(slot, i / 5, i % 5);
      v[static_cast<size_t>(i)] = -number(slot, i / 5, i % 5);
    }
    write_kv_bf16(s, slot, k, v, keys.data(), values.data());
  }
  // A head's keys lie pair of elements by pair of elements, slot by slot, and then the odd one;
  // values pair of slots by pair of slots.
  size_t at = 0;
  size_t n_written = 0;
  const auto expect_key = [&](int64_t h, int64_t slot, int64_t d) {
    const bool is_written = std::find(slots.begin(), slots.end(), slot) != slots.end();
    n_written += is_written ? 1 : 0;
    EXPECT_EQ(keys[at++], is_written ? f32_to_bf16(number(slot, h, d)) : kBf16Nan);
  };
  for (int64_t h = 0; h < 3; ++h) {
    for (const int64_t d : {0, 2}) {
      for (int64_t slot = 0; slot < kPageTokens; ++slot) {
        expect_key(h, slot, d);
        expect_key(h, slot, d + 1);
      }
    }
    for (int64_t slot = 0; slot < kPageTokens; ++slot) expect_key(h, slot, 4);
  }
  EXPECT_EQ(n_written, 4u * 15);
  at = 0;
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t pair = 0; pair < kPageTokens / 2; ++pair) {
      for (int64_t d = 0; d < 5; ++d) {
        for (const int64_t slot : {2 * pair, 2 * pair + 1}) {
          const bool is_written = std::find(slots.begin(), slots.end(), slot) != slots.end();
          EXPECT_EQ(values[at++], is_written ? f32_to_bf16(-number(slot, h, d)) : kBf16Nan);
        }
      }
    }
  }
}

TEST(F32ToBf16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(0x1.01p0F), 0x3F80);       // a tie, to even
  EXPECT_EQ(f32_to_bf16(0x1.03p0F), 0x3F82);       // a tie, to even
  EXPECT_EQ(f32_to_bf16(0x1.010002p0F), 0x3F81);   // just above a tie
  EXPECT_EQ(f32_to_bf16(-0x1.00fffep0F), 0xBF80);  // just below one
  EXPECT_EQ(f32_to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(kNan))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(bits))), bits);
  }
}

}  // namespace
}  // namespace penstock
