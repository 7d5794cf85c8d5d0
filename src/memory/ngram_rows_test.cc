#include "memory/ngram_rows.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr int32_t kEos = 248044;
constexpr int64_t kVocab = 248320;
constexpr int64_t kRows = 320001536;

// Of Qwen3.8-Flash-Next, as its specification lists them.
NgramTable qwen_table() {
  return {.multipliers = {23703573157769, 20109073645365, 8052911324071},
          .sizes = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                    20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171},
          .offsets = {0, 20000003, 40000026, 60000059, 80000106, 100000165, 120000228, 140000297,
                      160000374, 180000455, 200000548, 220000655, 240000802, 260000955, 280001114,
                      300001275},
          .eos = kEos};
}

using Rows = std::vector<int64_t>;

// The vectors of the specification.
const Rows kStart9707 = {16410909,  39682429,  55103279,  60931720,  87006904,  116506179,
                         131512017, 152932897, 169641436, 182022480, 209277433, 237891023,
                         256841529, 277007269, 290665954, 300984276};
const Rows kAfterTwo = {6380558,   26411572,  56460672,  78566983,  94693008,  106742196,
                        124822692, 148942556, 164226950, 190352573, 210933682, 238908951,
                        242182004, 265475238, 299910982, 312121804};
const Rows kAfterEos = {4534223,   34461195,  53188831,  67623329,  89624755,  104428266,
                        137386396, 149402401, 160426620, 196479308, 211378993, 239143795,
                        249988146, 262053263, 299679851, 309845962};
const Rows kLastToken = {5970900,   36362166,  55972319,  60370727,  88731918,  112460785,
                         138936960, 149219848, 172838917, 194984809, 206177822, 227084607,
                         249282039, 272538945, 280526685, 302231004};

TEST(NgramRows, AreThoseOfTheSpecification) {
  const NgramTable table = qwen_table();
  ASSERT_TRUE(check_ngram_table(table, kRows, kVocab));
  EXPECT_EQ(ngram_rows(table, std::vector<int32_t>{9707}, 0), kStart9707);
  EXPECT_EQ(ngram_rows(table, std::vector<int32_t>{9707, 11, 1879}, 2), kAfterTwo);
  EXPECT_EQ(ngram_rows(table, std::vector<int32_t>{1, 2, 248319}, 2), kLastToken);
}

TEST(NgramRows, NothingIsSeenBeforeASequenceBegan) {
  const NgramTable table = qwen_table();
  EXPECT_EQ(ngram_rows(table, std::vector<int32_t>{9707, kEos, 1879}, 2), kAfterEos);
  EXPECT_EQ(ngram_rows(table, std::vector<int32_t>{1879}, 0), kAfterEos);
}

// Rows depend on nothing but the token and two before it, so any cut of a sequence gives the same.
TEST(NgramRows, AChunkHasTheRowsOfTheWhole) {
  const NgramTable table = qwen_table();
  const std::vector<int32_t> ids = {5, 9, kEos, 4, 4, 100'000, kEos, kEos, 7, 8, 9};
  const Rows whole = ngram_rows(table, ids, 0);
  ASSERT_EQ(whole.size(), ids.size() * 16);
  for (size_t cut = 1; cut < ids.size(); ++cut) {
    const size_t n_before = std::min<size_t>(cut, 2);
    const Rows rest = ngram_rows(table, std::span(ids).subspan(cut - n_before), n_before);
    EXPECT_EQ(rest, Rows(whole.begin() + static_cast<ptrdiff_t>(cut * 16), whole.end())) << cut;
  }
}

TEST(NgramRows, ATableThatCannotBeIsRefused) {
  const auto refused = [](auto change) {
    NgramTable table = qwen_table();
    change(table);
    const auto checked = check_ngram_table(table, kRows, kVocab);
    return !checked && checked.error().kind == ErrorKind::kInvalidData;
  };
  EXPECT_TRUE(refused([](NgramTable& t) { t.sizes.pop_back(); }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.sizes = t.offsets = {}; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.sizes[3] = 0; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.offsets[15] += 1000; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.offsets[0] = -1; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.multipliers[1] = 0; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.multipliers[2] = int64_t{1} << 60; }));
  EXPECT_TRUE(refused([](NgramTable& t) { t.eos = kVocab; }));
}

}  // namespace
}  // namespace penstock
