#include "memory/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "memory/kv_store.h"

namespace penstock {
namespace {

TEST(PagePool, HandsOutEveryPageOnceAndThenNone) {
  PagePool pool(3);
  std::vector<PageRef> held;
  while (auto page = pool.take()) held.push_back(*std::move(page));
  ASSERT_EQ(held.size(), 3u);
  EXPECT_NE(held[0].id(), held[1].id());
  EXPECT_NE(held[1].id(), held[2].id());
  EXPECT_EQ(pool.n_free(), 0);
  held.clear();
  EXPECT_EQ(pool.n_free(), 3);
}

TEST(PagePool, ASharedPageIsFreedByItsLastHolder) {
  PagePool pool(1);
  auto first = std::make_optional(*pool.take());
  auto second = std::make_optional(first->share());
  EXPECT_TRUE(first->is_shared());
  first.reset();
  EXPECT_EQ(pool.n_free(), 0);
  EXPECT_FALSE(second->is_shared());
  second.reset();
  EXPECT_EQ(pool.n_free(), 1);
}

// Against a model so plain that it is clearly right: a list of who holds what.
TEST(PagePool, RandomTakesSharesAndDropsConservePages) {
  constexpr int64_t kPages = 17;
  std::mt19937 random(20261129);  // NOLINT(bugprone-random-generator-seed): repeatable
  PagePool pool(kPages);
  std::vector<PageRef> held;
  for (int step = 0; step < 20'000; ++step) {
    const auto choice = random() % 3;
    if (choice == 0) {
      if (auto page = pool.take()) held.push_back(*std::move(page));
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      if (choice == 1) {
        held.push_back(held[at].share());
      } else {
        std::swap(held[at], held.back());
        held.pop_back();
      }
    }
    std::vector<int> holders(kPages, 0);
    for (const auto& ref : held) ++holders[static_cast<size_t>(ref.id())];
    const auto n_free = std::count(holders.begin(), holders.end(), 0);
    ASSERT_EQ(pool.n_free(), n_free) << "step " << step;
    if (held.size() > 60) held.clear();
  }
}

template <class T>
void check_pages(KvFormat format) {
  const KvShape shape{.n_layers = 3, .n_kv_heads = 2, .head_dim = 8, .format = format};
  const auto store = KvStore::make(shape, 4);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(shape.page_bytes(), 3u * 2u * 2u * 64u * 8u * sizeof(T));
  const auto for_each_run = [&](auto body) {
    T number = 1;
    for (int layer = 0; layer < 3; ++layer) {
      for (uint32_t page = 0; page < 4; ++page) {
        body(store->keys<T>(layer, PageId{page}), number++);
        body(store->values<T>(layer, PageId{page}), number++);
      }
    }
  };
  for_each_run([&](T* run, T number) { std::fill_n(run, shape.page_numbers(), number); });
  for_each_run([&](const T* run, T number) {
    EXPECT_EQ(run[0], number);
    EXPECT_EQ(run[shape.page_numbers() - 1], number);
  });
  store->copy_page(PageId{1}, PageId{3});
  for (int layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(store->keys<T>(layer, PageId{3})[5], store->keys<T>(layer, PageId{1})[5]);
    EXPECT_EQ(store->values<T>(layer, PageId{3})[5], store->values<T>(layer, PageId{1})[5]);
  }
}

TEST(KvStore, PagesDoNotOverlapAndCopiesCoverEveryLayer) {
  check_pages<float>(KvFormat::kF32);
  check_pages<uint16_t>(KvFormat::kBF16);
}

TEST(KvStore, ImpossibleSizesAreErrors) {
  EXPECT_FALSE(KvStore::make({.n_layers = 1, .n_kv_heads = 1, .head_dim = 8}, 0));
  EXPECT_FALSE(
      KvStore::make({.n_layers = 64, .n_kv_heads = 64, .head_dim = 128}, int64_t{1} << 60));
}

}  // namespace
}  // namespace penstock
