#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  AttentionShape shape;
  int64_t n_positions = 0;  // tokens in the sequence: the last n_tokens of them ask
  int64_t n_tokens = 0;
  bool has_sinks = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.shape.n_heads << "/" << c.shape.n_kv_heads << " heads of " << c.shape.head_dim
       << ", window " << c.shape.window << ", " << c.n_tokens << " of " << c.n_positions
       << " tokens" << (c.has_sinks ? ", sinks" : "");
}

// A sequence with pages in shuffled places. Slots past its end hold NaN.
class Sequence {
 public:
  Sequence(const Case& c, uint32_t placement_seed = 1) : c_(c) {
    const int64_t row = int64_t{c.shape.n_heads} * c.shape.head_dim;
    q_ = random_floats(c.n_tokens * row, 7);
    if (c.has_sinks) sinks_ = random_floats(c.shape.n_heads, 8, 2.0F);
    const auto keys = random_floats(c.n_positions * kv_row(), 9);
    const auto values = random_floats(c.n_positions * kv_row(), 10);
    place(keys, placement_seed, key_store_, key_pages_);
    place(values, placement_seed + 1, value_store_, value_pages_);
  }

  const Case& spec() const { return c_; }
  std::span<const float> sinks() const { return sinks_; }
  int64_t first_position() const { return c_.n_positions - c_.n_tokens; }
  PagedKv kv() const { return {key_pages_, value_pages_}; }
  Rows<const float> q() const {
    return dense_rows(q_.data(), c_.n_tokens, int64_t{c_.shape.n_heads} * c_.shape.head_dim);
  }
  float key(int64_t j, int64_t kv_head, int64_t d) const { return at(key_pages_, j, kv_head, d); }
  float value(int64_t j, int64_t kv_head, int64_t d) const {
    return at(value_pages_, j, kv_head, d);
  }
  void set(int64_t j, float number) {
    for (auto* pages : {&key_pages_, &value_pages_}) {
      for (int64_t h = 0; h < c_.shape.n_kv_heads; ++h) {
        for (int64_t d = 0; d < c_.shape.head_dim; ++d) {
          const_cast<float&>(at(*pages, j, h, d)) = number;
        }
      }
    }
  }
  void drop_page(int64_t p) {
    key_pages_[static_cast<size_t>(p)] = nullptr;
    value_pages_[static_cast<size_t>(p)] = nullptr;
  }

 private:
  int64_t kv_row() const { return int64_t{c_.shape.n_kv_heads} * c_.shape.head_dim; }
  const float& at(const std::vector<const float*>& pages, int64_t j, int64_t kv_head,
                  int64_t d) const {
    return pages[static_cast<size_t>(j / kPageTokens)]
                [(kv_head * kPageTokens + j % kPageTokens) * c_.shape.head_dim + d];
  }

  void place(const std::vector<float>& rows, uint32_t seed, std::vector<float>& store,
             std::vector<const float*>& pages) const {
    const auto n_pages = static_cast<size_t>(pages_for(c_.n_positions));
    const auto page_floats = static_cast<size_t>(kPageTokens * kv_row());
    store.assign(n_pages * page_floats, kNan);
    std::vector<size_t> places(n_pages);
    for (size_t p = 0; p < n_pages; ++p) places[p] = p;
    std::shuffle(places.begin(), places.end(), std::mt19937(seed));
    for (size_t p = 0; p < n_pages; ++p) pages.push_back(store.data() + places[p] * page_floats);
    for (int64_t j = 0; j < c_.n_positions; ++j) {
      for (int64_t h = 0; h < c_.shape.n_kv_heads; ++h) {
        for (int64_t d = 0; d < c_.shape.head_dim; ++d) {
          const_cast<float&>(at(pages, j, h, d)) =
              rows[static_cast<size_t>(j * kv_row() + h * c_.shape.head_dim + d)];
        }
      }
    }
  }

  Case c_;
  std::vector<float> q_;
  std::vector<float> sinks_;
  std::vector<float> key_store_;
  std::vector<float> value_store_;
  std::vector<const float*> key_pages_;
  std::vector<const float*> value_pages_;
};

// Calls of tokens [begin, end) of q and of `heads`, with scratch for `scratch_tokens` at once.
void attend(const Sequence& s, Isa isa, Range tokens, Range heads, int64_t scratch_tokens,
            std::vector<float>& y) {
  const AttentionShape& shape = s.spec().shape;
  const int64_t last = s.first_position() + tokens.end;
  std::vector<float> scratch(attention_scratch_floats(shape, scratch_tokens, last), kNan);
  const auto q = s.q();
  attention_exact(isa, shape, heads, {q.row(tokens.begin), tokens.size(), q.cols, q.stride},
                  s.first_position() + tokens.begin, s.kv(), s.sinks(), scratch,
                  {y.data() + tokens.begin * q.cols, tokens.size(), q.cols, q.cols});
}

std::vector<float> empty_result(const Sequence& s) {
  return std::vector<float>(static_cast<size_t>(s.q().n_rows * s.q().cols), kNan);
}

std::vector<float> attend_at_once(const Sequence& s, Isa isa) {
  auto y = empty_result(s);
  attend(s, isa, {0, s.q().n_rows}, {0, s.spec().shape.n_heads}, 16, y);
  return y;
}

// The textbook in float64, one head of one token.
std::vector<double> attend_f64(const Sequence& s, int64_t t, int64_t h) {
  const AttentionShape& shape = s.spec().shape;
  const int64_t kv_head = h / (shape.n_heads / shape.n_kv_heads);
  const int64_t i = s.first_position() + t;
  const float* const q = s.q().row(t) + h * shape.head_dim;
  std::vector<double> y(static_cast<size_t>(shape.head_dim));
  double sum = s.sinks().empty() ? 0.0 : std::exp(double{s.sinks()[static_cast<size_t>(h)]});
  for (int64_t j = 0; j <= i; ++j) {
    if (shape.window > 0 && j <= i - shape.window) continue;
    double dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) dot += double{q[d]} * s.key(j, kv_head, d);
    const double e = std::exp(shape.scale * dot);
    sum += e;
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      y[static_cast<size_t>(d)] += e * s.value(j, kv_head, d);
    }
  }
  for (double& each : y) each /= sum;
  return y;
}

class Attention : public testing::TestWithParam<Case> {};

// Tolerance, u = 2^-24. A score is off by at most (head_dim / 16 + 6) u sum|q k| scale, which with
// these numbers (|q k| sums below 2 head_dim, scale head_dim^-0.5) is (head_dim / 16 + 6) 2
// sqrt(head_dim) u, and by u |s| more from the subtraction; e and so y carry that relatively, with
// exp's 2 u. Numerator and denominator then add at most 64 + pages roundings. Values are below 5.
TEST_P(Attention, TheReferenceIsTheTextbook) {
  const Sequence s(GetParam());
  const AttentionShape& shape = s.spec().shape;
  auto y = empty_result(s);
  attention_exact_ref(shape, {0, shape.n_heads}, s.q(), s.first_position(), s.kv(), s.sinks(),
                      dense_rows(y.data(), s.q().n_rows, s.q().cols));
  const double u = std::ldexp(1.0, -24);
  const double score_error = (shape.head_dim / 16.0 + 8) * 2 * std::sqrt(shape.head_dim) * u;
  const double n_pages = std::ceil(static_cast<double>(s.spec().n_positions) / kPageTokens);
  const double tolerance = 5 * 2 * (score_error + (64 + n_pages + 4) * u);
  for (int64_t t = 0; t < s.q().n_rows; ++t) {
    for (int64_t h = 0; h < shape.n_heads; ++h) {
      const auto expected = attend_f64(s, t, h);
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const auto at = static_cast<size_t>(t * s.q().cols + h * shape.head_dim + d);
        ASSERT_NEAR(y[at], expected[static_cast<size_t>(d)], tolerance) << t << " " << h;
      }
    }
  }
}

TEST_P(Attention, EveryIsaGivesTheReferencesBits) {
  const Sequence s(GetParam());
  const auto expected = attend_at_once(s, Isa::kScalar);
  for (const Isa isa : supported_isas()) {
    EXPECT_TRUE(same_bits(attend_at_once(s, isa), expected)) << to_string(isa);
  }
}

TEST_P(Attention, SplitsOfTokensHeadsAndScratchChangeNoBit) {
  const Sequence s(GetParam());
  const auto expected = attend_at_once(s, Isa::kScalar);
  const int64_t n_heads = s.spec().shape.n_heads;
  for (const Isa isa : supported_isas()) {
    std::mt19937 random(11);
    for (int round = 0; round < 6; ++round) {
      auto y = empty_result(s);
      for (int64_t t = 0; t < s.q().n_rows;) {
        const int64_t end = std::min(t + 1 + static_cast<int64_t>(random() % 40), s.q().n_rows);
        for (int64_t h = 0; h < n_heads;) {
          const int64_t last = std::min(h + 1 + static_cast<int64_t>(random()) % n_heads, n_heads);
          attend(s, isa, {t, end}, {h, last}, 1 + static_cast<int64_t>(random() % 16), y);
          h = last;
        }
        t = end;
      }
      ASSERT_TRUE(same_bits(y, expected)) << to_string(isa) << " round " << round;
    }
  }
}

TEST_P(Attention, PagesMayLieAnywhere) {
  for (const Isa isa : supported_isas()) {
    const auto expected = attend_at_once(Sequence(GetParam(), 1), isa);
    EXPECT_TRUE(same_bits(attend_at_once(Sequence(GetParam(), 100), isa), expected));
  }
}

// A token before `poisoned` gives the same bits whatever stands there; so does one beyond the
// window.
TEST_P(Attention, WhatATokenDoesNotSeeCannotReachIt) {
  const Sequence clean(GetParam());
  const AttentionShape& shape = clean.spec().shape;
  for (const Isa isa : supported_isas()) {
    const auto expected = attend_at_once(clean, isa);
    for (const int64_t back : {0, 1, 5, 30}) {
      const int64_t poisoned = clean.spec().n_positions - 1 - back;
      if (poisoned < 0) continue;
      Sequence dirty(GetParam());
      dirty.set(poisoned, kNan);
      const auto y = attend_at_once(dirty, isa);
      for (int64_t t = 0; t < dirty.q().n_rows; ++t) {
        const int64_t i = dirty.first_position() + t;
        const bool is_seen = poisoned <= i && (shape.window == 0 || poisoned > i - shape.window);
        const auto row = static_cast<size_t>(t * dirty.q().cols);
        const auto n = static_cast<size_t>(dirty.q().cols);
        if (is_seen) {
          ASSERT_TRUE(std::isnan(y[row])) << "position " << i << " sees " << poisoned;
        } else {
          ASSERT_TRUE(same_bits(std::span(y).subspan(row, n), std::span(expected).subspan(row, n)))
              << to_string(isa) << " position " << i << ", poison at " << poisoned;
        }
      }
    }
  }
}

AttentionShape shape(int n_heads, int n_kv_heads, int head_dim, int64_t window = 0) {
  return {n_heads, n_kv_heads, head_dim, 1.0F / std::sqrt(static_cast<float>(head_dim)), window};
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Attention,
    testing::Values(Case{shape(1, 1, 16), 1, 1}, Case{shape(2, 1, 8), 5, 5},
                    Case{shape(4, 2, 64), 64, 64}, Case{shape(9, 3, 64), 65, 65},
                    Case{shape(4, 4, 80), 100, 37}, Case{shape(8, 1, 128), 200, 1},
                    Case{shape(6, 2, 256), 129, 20}, Case{shape(5, 1, 24), 150, 33, true},
                    Case{shape(4, 2, 32, 1), 90, 90}, Case{shape(4, 2, 32, 17), 300, 150},
                    Case{shape(2, 2, 16, 64), 260, 100, true}, Case{shape(3, 1, 128, 100), 250, 3},
                    Case{shape(2, 1, 40, 1000), 70, 70}, Case{shape(7, 7, 48), 130, 50, true}));

TEST(AttentionWindow, PagesBelowItMayBeGone) {
  const Case c = {shape(4, 2, 32, 50), 400, 30};
  const Sequence whole(c);
  Sequence cut(c);
  const int64_t first_seen = c.n_positions - c.n_tokens - c.shape.window + 1;
  for (int64_t p = 0; p < first_seen / kPageTokens; ++p) cut.drop_page(p);
  for (const Isa isa : supported_isas()) {
    EXPECT_TRUE(same_bits(attend_at_once(cut, isa), attend_at_once(whole, isa)));
  }
}

// One sink so high that nothing else weighs: exp of every score is flushed to nothing.
TEST(AttentionSinks, AHighSinkTakesAll) {
  const Case c = {shape(2, 1, 16), 20, 20};
  const Sequence s(c);
  const std::vector<float> sinks = {300.0F, -300.0F};
  for (const Isa isa : supported_isas()) {
    std::vector<float> scratch(attention_scratch_floats(c.shape, 20, 20));
    auto y = empty_result(s);
    attention_exact(isa, c.shape, {0, 2}, s.q(), 0, s.kv(), sinks, scratch,
                    dense_rows(y.data(), 20, 32));
    const auto plain = attend_at_once(s, isa);
    for (size_t t = 0; t < 20; ++t) {
      for (size_t d = 0; d < 16; ++d) EXPECT_EQ(y[t * 32 + d], 0.0F);
      for (size_t d = 16; d < 32; ++d) EXPECT_EQ(y[t * 32 + d], plain[t * 32 + d]);
    }
  }
}

TEST(AttentionScratch, GrowsWithBothCountsAndIsBounded) {
  const AttentionShape wide = shape(32, 4, 128);
  size_t before = 0;
  for (const int64_t n_positions : {1, 64, 65, 4096, 60'000, 500'000}) {
    const size_t now = attention_scratch_floats(wide, 512, n_positions);
    EXPECT_GE(now, attention_scratch_floats(wide, 1, n_positions));
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_LT(attention_scratch_floats(wide, 512, 4096), (2u << 20) / sizeof(float) + 1000);
  EXPECT_LT(attention_scratch_floats(shape(32, 4, 128, 128), 512, 1 << 20), 200'000u);
}

}  // namespace
}  // namespace penstock
