#include "engine/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"

namespace penstock {
namespace {

using Tokens = std::vector<int32_t>;

Tokens numbered(int64_t n, int32_t first = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = first + static_cast<int32_t>(i);
  return tokens;
}

PrefixKeys keys(const Tokens& tokens) { return {.tokens = tokens}; }

std::vector<PageRef> take(PagePool& pool, int64_t n) {
  std::vector<PageRef> pages;
  while (n-- > 0) pages.push_back(*pool.take());
  return pages;
}

int64_t pages_of(const Tokens& tokens) { return pages_for(static_cast<int64_t>(tokens.size())); }

// Puts a sequence into the tree and lets go of it.
void insert(PagePool& pool, PrefixTree& tree, std::string_view scope, const Tokens& tokens) {
  auto pages = take(pool, pages_of(tokens));
  tree.insert(scope, keys(tokens), pages);
}

TEST(PrefixTree, FindsTheLongestBeginning) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens stored = numbered(2 * kPageTokens + 10);
  insert(pool, tree, "", stored);
  for (const int64_t n_common :
       {int64_t{0}, int64_t{1}, kPageTokens - 1, kPageTokens, kPageTokens + 1, 2 * kPageTokens,
        2 * kPageTokens + 9, 2 * kPageTokens + 10}) {
    SCOPED_TRACE(n_common);
    Tokens asked(stored.begin(), stored.begin() + n_common);
    asked.resize(static_cast<size_t>(3 * kPageTokens), -1);
    const PrefixMatch match = tree.match("", keys(asked));
    EXPECT_EQ(match.n_positions, n_common);
    EXPECT_EQ(static_cast<int64_t>(match.pages.size()), n_common / kPageTokens);
    EXPECT_EQ(match.partial.has_value(), n_common % kPageTokens != 0);
  }
}

TEST(PrefixTree, WhoAsksForLessThanThereIsGetsThat) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens stored = numbered(2 * kPageTokens);
  insert(pool, tree, "", stored);
  const Tokens asked(stored.begin(), stored.end() - 1);
  const PrefixMatch match = tree.match("", keys(asked));
  EXPECT_EQ(match.n_positions, 2 * kPageTokens - 1);
  EXPECT_TRUE(match.partial);
}

TEST(PrefixTree, ScopesDoNotSeeEachOther) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens tokens = numbered(kPageTokens);
  insert(pool, tree, "alice", tokens);
  EXPECT_EQ(tree.match("bob", keys(tokens)).n_positions, 0);
  EXPECT_EQ(tree.match("", keys(tokens)).n_positions, 0);
  EXPECT_EQ(tree.match("alice", keys(tokens)).n_positions, kPageTokens);
}

TEST(PrefixTree, ContentIsToldApartByItsHashAndPlace) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens tokens(static_cast<size_t>(kPageTokens), 7);  // a placeholder for each position
  const std::vector<ContentSpan> cat = {{.begin = 4, .end = 60, .hash = 111}};
  const std::vector<ContentSpan> dog = {{.begin = 4, .end = 60, .hash = 222}};
  const std::vector<ContentSpan> moved = {{.begin = 5, .end = 61, .hash = 111}};
  auto pages = take(pool, 1);
  tree.insert("", {.tokens = tokens, .content = cat}, pages);
  EXPECT_EQ(tree.match("", {.tokens = tokens, .content = cat}).n_positions, kPageTokens);
  EXPECT_EQ(tree.match("", {.tokens = tokens, .content = dog}).n_positions, 4);
  EXPECT_EQ(tree.match("", {.tokens = tokens, .content = moved}).n_positions, 4);
  EXPECT_EQ(tree.match("", keys(tokens)).n_positions, 4);
}

TEST(PrefixTree, ASecondCopyOfAPageGivesWayToTheFirst) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens tokens = numbered(2 * kPageTokens);
  auto first = take(pool, 2);
  auto second = take(pool, 2);
  tree.insert("", keys(tokens), first);
  tree.insert("", keys(tokens), second);
  EXPECT_EQ(first[0].id(), second[0].id());
  EXPECT_EQ(first[1].id(), second[1].id());
  EXPECT_EQ(pool.n_free(), 8);
  EXPECT_EQ(tree.n_pages(), 2);
}

TEST(PrefixTree, ALongerPageTakesThePlaceOfItsBeginning) {
  PagePool pool(10);
  PrefixTree tree(pool);
  insert(pool, tree, "", numbered(10));
  insert(pool, tree, "", numbered(kPageTokens));
  EXPECT_EQ(tree.n_pages(), 1);
  insert(pool, tree, "", numbered(20));  // says nothing new
  EXPECT_EQ(tree.n_pages(), 1);
  EXPECT_EQ(pool.n_free(), 9);
}

TEST(PrefixTree, TheLeastRecentlyUsedLeafGoesFirstAndPinnedOnesStay) {
  PagePool pool(10);
  PrefixTree tree(pool);
  const Tokens old = numbered(2 * kPageTokens, 1000);
  const Tokens recent = numbered(kPageTokens, 2000);
  const Tokens pinned = numbered(kPageTokens, 3000);
  auto pinned_pages = take(pool, 1);
  tree.insert("", keys(pinned), pinned_pages);
  insert(pool, tree, "", old);
  insert(pool, tree, "", recent);
  EXPECT_EQ(pool.n_idle(), 3);
  tree.match("", keys(recent));
  ASSERT_TRUE(tree.evict_one());
  EXPECT_EQ(tree.match("", keys(old)).n_positions, kPageTokens) << "the leaf went, not its parent";
  ASSERT_TRUE(tree.evict_one());  // `recent` is older now
  EXPECT_EQ(tree.match("", keys(recent)).n_positions, 0);
  ASSERT_TRUE(tree.evict_one());
  EXPECT_FALSE(tree.evict_one()) << "what is left is in use";
  EXPECT_EQ(tree.match("", keys(pinned)).n_positions, kPageTokens);
  pinned_pages.clear();
  EXPECT_EQ(tree.evict_all(), 1);
  EXPECT_EQ(pool.n_free(), 10);
}

TEST(PrefixTree, PagesInUseOutliveTheTree) {
  PagePool pool(4);
  const Tokens tokens = numbered(2 * kPageTokens);
  auto pages = take(pool, 2);
  {
    PrefixTree tree(pool);
    tree.insert("", keys(tokens), pages);
  }
  EXPECT_EQ(pool.n_free(), 2);
  EXPECT_EQ(pool.n_idle(), 0);
  pages.clear();
  EXPECT_EQ(pool.n_free(), 4);
}

// Against a reference so plain that it is clearly right: a list of every sequence ever inserted
// whose pages are all still there, searched from end to end.
class RandomTree {
 public:
  explicit RandomTree(uint32_t seed) : random_(seed) {}

  void run(int n_operations) {
    for (int i = 0; i < n_operations && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "operation " << i);
      switch (random_() % 5) {
        case 0:
        case 1:
          begin_sequence();
          break;
        case 2:
          end_sequence();
          break;
        case 3:
          look();
          break;
        default:
          evict();
          break;
      }
      check_counts();
    }
  }

 private:
  static constexpr int64_t kPages = 40;

  struct Live {
    std::string scope;
    Tokens tokens;
    std::vector<PageRef> pages;
  };

  // Few different tokens, in runs: many sequences begin alike.
  Tokens random_tokens() {
    Tokens tokens;
    while (tokens.size() < 30 || (random_() % 4 != 0 && tokens.size() < 300)) {
      const auto run = 1 + random_() % 70;
      tokens.insert(tokens.end(), run, static_cast<int32_t>(random_() % 2));
    }
    return tokens;
  }
  std::string random_scope() { return random_() % 4 == 0 ? "other" : ""; }

  // What a page holds, as the reference knows it: everything from position 0 to its last.
  std::string content(const std::string& scope, const Tokens& tokens, int64_t end) {
    std::string text = scope + ":";
    for (int64_t i = 0; i < end; ++i)
      text += static_cast<char>('a' + tokens[static_cast<size_t>(i)]);
    return text;
  }

  // As a request does: match, take pages for the rest, compute, insert.
  void begin_sequence() {
    Live live{random_scope(), random_tokens(), {}};
    const auto limit = static_cast<int64_t>(live.tokens.size()) - 1;
    PrefixMatch match = tree_.match(
        live.scope, {.tokens = std::span(live.tokens).first(static_cast<size_t>(limit))});
    check_match(live, match, limit);
    live.pages = std::move(match.pages);
    while (static_cast<int64_t>(live.pages.size()) < pages_of(live.tokens)) {
      auto page = pool_.take();
      if (!page && tree_.evict_one()) page = pool_.take();
      if (!page) return;  // it waits, and holds nothing
      live.pages.push_back(*std::move(page));
    }
    for (size_t i = 0; i < live.pages.size(); ++i) {
      const auto end = std::min<int64_t>(static_cast<int64_t>(i + 1) * kPageTokens, limit + 1);
      const std::string holds = content(live.scope, live.tokens, end);
      std::string& held = content_[live.pages[i].id()];
      // A shared page must hold already what its new user is to find there.
      if (live.pages[i].is_shared()) {
        ASSERT_EQ(held, holds) << "a page with other content was handed out";
      }
      held = holds;
    }
    const auto n_full = live.tokens.size() / kPageTokens * kPageTokens;
    tree_.insert(live.scope, {.tokens = std::span(live.tokens).first(n_full)}, live.pages);
    for (size_t i = 0; i < n_full / kPageTokens; ++i) {
      ASSERT_EQ(content_[live.pages[i].id()],
                content(live.scope, live.tokens, static_cast<int64_t>(i + 1) * kPageTokens));
    }
    live_.push_back(std::move(live));
  }

  void end_sequence() {
    if (live_.empty()) return;
    const size_t at = random_() % live_.size();
    Live live = std::move(live_[at]);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(at));
    if (random_() % 2 == 0) tree_.insert(live.scope, keys(live.tokens), live.pages);
  }

  void look() {
    const Live asked{random_scope(), random_tokens(), {}};
    const PrefixMatch match = tree_.match(asked.scope, keys(asked.tokens));
    check_match(asked, match, static_cast<int64_t>(asked.tokens.size()));
  }

  void evict() {
    const bool there_was_one = pool_.n_idle() > 0;
    ASSERT_EQ(tree_.evict_one(), there_was_one);
  }

  // The pages of a match hold what they should, and a live sequence that begins alike is found.
  void check_match(const Live& asked, const PrefixMatch& match, int64_t limit) {
    for (size_t i = 0; i < match.pages.size(); ++i) {
      ASSERT_EQ(content_[match.pages[i].id()],
                content(asked.scope, asked.tokens, static_cast<int64_t>(i + 1) * kPageTokens));
    }
    if (match.partial) {
      const std::string wanted = content(asked.scope, asked.tokens, match.n_positions);
      ASSERT_EQ(content_[match.partial->id()].substr(0, wanted.size()), wanted);
    }
    int64_t n_live = 0;
    for (const Live& live : live_) {
      if (live.scope != asked.scope) continue;
      const auto n_full = static_cast<int64_t>(live.tokens.size()) / kPageTokens * kPageTokens;
      int64_t n = 0;
      while (n < std::min(n_full, limit) &&
             live.tokens[static_cast<size_t>(n)] == asked.tokens[static_cast<size_t>(n)]) {
        ++n;
      }
      n_live = std::max(n_live, n);
    }
    ASSERT_GE(match.n_positions, n_live) << "a beginning that is in use was not found";
    ASSERT_LE(match.n_positions, limit);
  }

  void check_counts() {
    std::map<PageId, int> n_holders;
    for (const Live& live : live_) {
      for (const PageRef& page : live.pages) ++n_holders[page.id()];
    }
    const auto n_held = static_cast<int64_t>(n_holders.size());
    ASSERT_EQ(pool_.n_free() + pool_.n_idle() + n_held, kPages);
    ASSERT_GE(tree_.n_pages(), pool_.n_idle());
  }

  std::mt19937 random_;
  PagePool pool_{kPages};
  PrefixTree tree_{pool_};
  std::vector<Live> live_;
  std::map<PageId, std::string> content_;
};

// BC-60, BC-61
TEST(PrefixTree, ThousandsOfRandomOperationsAgreeWithAPlainReference) {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomTree(seed).run(1000);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
