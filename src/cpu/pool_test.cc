#include "cpu/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "os/cpu_limits.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// CPUs 0, 1, ..., each a core.
Topology alike(int n_cpus, double quota = std::numeric_limits<double>::infinity()) {
  std::vector<int> ids(static_cast<size_t>(n_cpus));
  std::iota(ids.begin(), ids.end(), 0);
  Topology topology = within({}, ids);
  topology.quota = quota;
  return topology;
}

// More workers than the machine has cores, so that some are always parked or preempted.
std::unique_ptr<Pool> crowded_pool(int n_workers) {
  return Pool::make({.pin = false, .topology = alike(n_workers)}).value();
}

TEST(Pool, RunsTheTaskOnceForEachWorkerAndTheCallerIsZero) {
  const auto pool = crowded_pool(5);
  std::array<std::thread::id, 5> ids;
  std::array<int, 5> calls = {};
  pool->run([&](int worker) {
    ids[static_cast<size_t>(worker)] = std::this_thread::get_id();
    ++calls[static_cast<size_t>(worker)];
  });
  EXPECT_THAT(calls, testing::Each(1));
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 5u);
}

bool within_seconds(int seconds, const std::function<bool()>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A wakeup lost once in these runs hangs the test. Plain ints on purpose: what workers write must
// be visible to the caller and to the next run without any other order.
void count_tiny_runs(Pool& pool, int64_t n_runs) {
  std::vector<int64_t> counts(static_cast<size_t>(pool.n_workers()), 0);
  for (int64_t i = 1; i <= n_runs; ++i) {
    pool.run([&](int worker) { ++counts[static_cast<size_t>(worker)]; });
    ASSERT_THAT(std::accumulate(counts.begin(), counts.end(), int64_t{0}), i * pool.n_workers());
  }
}
TEST(Pool, AHundredThousandTinyRuns) { count_tiny_runs(*Pool::make().value(), 100'000); }
TEST(Pool, TinyRunsOfMoreWorkersThanCores) { count_tiny_runs(*crowded_pool(7), 1000); }

// Both kinds of run in turn: what those who come late to one must not do is take part twice in the
// next, or read what was written for it too early.
void count_mixed_runs(Pool& pool, int64_t n_runs) {
  std::array<int64_t, 4> items = {};
  std::vector<int64_t> counts(static_cast<size_t>(pool.n_workers()), 0);
  for (int64_t i = 1; i <= n_runs; ++i) {
    pool.parallel_for(4, 1, [&](Range range, int) { ++items[static_cast<size_t>(range.begin)]; });
    ASSERT_THAT(items, testing::Each(i));
    if (i % 3 != 0) continue;
    pool.run([&](int worker) { ++counts[static_cast<size_t>(worker)]; });
    ASSERT_THAT(counts, testing::Each(i / 3));
  }
}
TEST(Pool, AHundredThousandMixedRuns) { count_mixed_runs(*Pool::make().value(), 100'000); }
TEST(Pool, MixedRunsOfMoreWorkersThanCores) { count_mixed_runs(*crowded_pool(7), 2000); }

// Pauses around the spin time put workers and caller on every side of parking.
TEST(Pool, RunsAcrossTheMomentOfParking) {
  const auto pool = crowded_pool(3);
  std::array<int, 3> counts = {};
  for (int i = 0; i < 500; ++i) {
    const auto pause = std::chrono::microseconds(i % 100);
    std::this_thread::sleep_for(pause);
    pool->run([&](int worker) {
      if (worker == 1) std::this_thread::sleep_for(pause);
      ++counts[static_cast<size_t>(worker)];
    });
  }
  EXPECT_THAT(counts, testing::Each(500));
}

// Both ways to split items over workers.
using ParallelFor = void (Pool::*)(int64_t, int64_t, FunctionRef<void(Range, int)>);
class PoolParallel : public testing::TestWithParam<ParallelFor> {};
INSTANTIATE_TEST_SUITE_P(InOrder, PoolParallel, testing::Values(&Pool::parallel_for));
INSTANTIATE_TEST_SUITE_P(ByShares, PoolParallel, testing::Values(&Pool::parallel_for_shares));

TEST_P(PoolParallel, CoversEachItemOnceWithWholeChunks) {
  const auto pool = crowded_pool(3);
  for (const int64_t n_items : {0, 1, 6, 7, 8, 1000}) {
    std::vector<int> touched(static_cast<size_t>(n_items), 0);
    std::atomic<bool> well_formed = true;
    ((*pool).*GetParam())(n_items, 7, [&](Range range, int worker) {
      if (range.begin % 7 != 0 || range.size() < 1 || range.size() > 7) well_formed = false;
      if (worker < 0 || worker >= pool->n_workers()) well_formed = false;
      for (int64_t i = range.begin; i < range.end; ++i) ++touched[static_cast<size_t>(i)];
    });
    EXPECT_TRUE(well_formed);
    EXPECT_THAT(touched, testing::Each(1)) << n_items;
  }
}

// While nobody is done with a first chunk nobody takes another's: all begin with their own.
TEST(Pool, SharesBeginWithNeighboursInAscendingOrder) {
  const auto pool = crowded_pool(3);
  constexpr int64_t kItems = 31;  // 11 chunks: 3, 4 and 4
  std::atomic<int> n_begun = 0;
  std::array<std::vector<int64_t>, 3> begins;
  pool->parallel_for_shares(kItems, 3, [&](Range range, int worker) {
    auto& own = begins[static_cast<size_t>(worker)];
    own.push_back(range.begin / 3);
    if (own.size() == 1) {
      ++n_begun;
      within_seconds(10, [&] { return n_begun == 3; });
    }
  });
  const std::array<Range, 3> shares = {Range{0, 3}, Range{3, 7}, Range{7, 11}};
  for (size_t w = 0; w < shares.size(); ++w) {
    ASSERT_FALSE(begins[w].empty());
    EXPECT_EQ(begins[w].front(), shares[w].begin);
    bool is_own = true;
    for (size_t i = 1; i < begins[w].size(); ++i) {
      // Ascending within the share; once outside of it, never back.
      const bool in_share = begins[w][i] < shares[w].end && begins[w][i] > begins[w][i - 1];
      if (is_own && in_share) {
        EXPECT_EQ(begins[w][i], begins[w][i - 1] + 1);
      }
      is_own = is_own && in_share;
      if (!is_own) {
        EXPECT_FALSE(begins[w][i] >= shares[w].begin && begins[w][i] < shares[w].end);
      }
    }
  }
}

// The other worker sleeps after the caller is done: that, and no more, is waiting.
TEST(Pool, CountsWhatTheCallerWaitsForWhileItIsAsked) {
  const auto pool = crowded_pool(2);
  const auto run = [&] {
    pool->run([](int worker) {
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  };
  std::chrono::nanoseconds waited{0};
  run();
  EXPECT_EQ(waited.count(), 0);
  pool->count_waiting(&waited);
  const auto began = std::chrono::steady_clock::now();
  run();
  EXPECT_GE(waited, std::chrono::milliseconds(10));
  EXPECT_LE(waited, std::chrono::steady_clock::now() - began);
  pool->count_waiting(nullptr);
  const auto before = waited;
  run();
  EXPECT_EQ(waited, before);
}

TEST(Pool, TakesWhatIsPaidForAndSaysWhatItClamped) {
  const Topology topology = alike(6, /*quota=*/2.5);
  const auto by_default = Pool::make({.pin = false, .topology = topology}).value();
  EXPECT_EQ(by_default->n_workers(), 2);
  EXPECT_THAT(by_default->note(), IsEmpty());

  const auto clamped = Pool::make({.n_threads = 16, .pin = false, .topology = topology}).value();
  EXPECT_EQ(clamped->n_workers(), 2);
  EXPECT_EQ(clamped->note(),
            "16 CPU threads asked for, 2 used: the process may use 6 CPUs, and its cgroup pays for "
            "2.50");

  EXPECT_EQ(Pool::make({.n_threads = 1, .topology = topology}).value()->n_workers(), 1);
  EXPECT_EQ(Pool::make({.n_threads = -1}).error().kind, ErrorKind::kInvalidArgument);
}

TEST(Pool, WithoutATopologyRunsInTheCaller) {
  const auto pool = Pool::make({.topology = Topology{.note = "no CPUs were found"}}).value();
  EXPECT_EQ(pool->n_workers(), 1);
  EXPECT_EQ(pool->note(), "no CPUs were found");
  int n_calls = 0;
  pool->run([&](int) { ++n_calls; });
  EXPECT_EQ(n_calls, 1);
}

TEST(Pool, PinsEachWorkerToItsOwnCpuButNotTheCaller) {
  const std::vector<int> mask = affinity_cpus();
  const auto pool = Pool::make().value();
  if (pool->n_workers() < 2) GTEST_SKIP() << "one CPU";
  std::vector<std::vector<int>> masks(static_cast<size_t>(pool->n_workers()));
  pool->run([&](int worker) { masks[static_cast<size_t>(worker)] = affinity_cpus(); });
  EXPECT_EQ(masks[0], mask);
  for (size_t worker = 1; worker < masks.size(); ++worker) {
    EXPECT_EQ(masks[worker], std::vector{pool->placement().cpus[worker]});
  }
}

TEST(Pool, PinsTheCallerOnlyWhenAsked) {
  std::thread([] {
    const auto pool = Pool::make({.n_threads = 1, .pin_caller = true}).value();
    EXPECT_EQ(affinity_cpus(), pool->placement().cpus);
  }).join();
}

TEST(Pool, ARefusedPinIsANoteNotAFailure) {
  const auto pool = Pool::make({.topology = within({}, std::array{0, 1 << 16})}).value();
  EXPECT_EQ(pool->n_workers(), 2);
  EXPECT_THAT(pool->note(), HasSubstr("1 of 2 CPU threads could not be pinned"));
}

// As on a core so slow that the others do everything else before its first chunk is done: shares
// settled beforehand would leave it with most of its own, and the others waiting.
TEST_P(PoolParallel, AWorkerHoweverSlowHoldsUpItsOwnChunkOnly) {
  const auto pool = crowded_pool(3);
  constexpr int64_t kChunks = 60;
  std::atomic<int64_t> n_done = 0;
  std::atomic<bool> is_slow_taken = false;
  std::atomic<bool> did_others_do_the_rest = false;
  std::atomic<int64_t> n_by_slow = 0;
  ((*pool).*GetParam())(kChunks, 1, [&](Range, int worker) {
    // Whoever of the others comes too early waits, so that the slow one does get a chunk.
    if (worker == 1) {
      is_slow_taken = true;
      ++n_by_slow;
      did_others_do_the_rest = within_seconds(10, [&] { return n_done == kChunks - 1; });
    } else {
      within_seconds(10, [&] { return is_slow_taken.load(); });
    }
    ++n_done;
  });
  EXPECT_TRUE(did_others_do_the_rest);
  EXPECT_EQ(n_by_slow, 1);
  EXPECT_EQ(n_done, kChunks);
}

// A thread in a signal's handler stands still wherever it was, like one whose CPU was given to
// somebody else.
TEST(Pool, AWorkerThatDoesNotComeIsNotWaitedFor) {
  const auto pool = crowded_pool(2);
  pthread_t thread = {};
  pool->run([&](int worker) {
    if (worker == 1) thread = ::pthread_self();
  });
  static std::atomic<bool> stands_still = false;
  static std::atomic<bool> is_let_go = false;
  const auto stand_still = [](int) {
    stands_still = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_let_go && std::chrono::steady_clock::now() < deadline) {
    }
  };
  const auto before = std::signal(SIGUSR1, stand_still);
  ASSERT_EQ(::pthread_kill(thread, SIGUSR1), 0);
  ASSERT_TRUE(within_seconds(10, [] { return stands_still.load(); }));

  int n_done = 0;  // by the caller alone
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) pool->parallel_for(8, 1, [&](Range, int) { ++n_done; });
  for (int i = 0; i < 3; ++i) pool->parallel_for_shares(8, 1, [&](Range, int) { ++n_done; });
  EXPECT_EQ(n_done, 48);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));

  is_let_go = true;
  std::array<int, 2> calls = {};
  pool->run([&](int worker) { ++calls[static_cast<size_t>(worker)]; });  // for this it is
  EXPECT_THAT(calls, testing::Each(1));
  std::signal(SIGUSR1, before);
}

TEST(Pool, IdleWorkersPark) {
  const auto pool = crowded_pool(4);
  pool->run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto cpu_seconds = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](timeval t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.05);
}

TEST(PoolDeathTest, ANestedRunIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto pool = crowded_pool(2);
        pool->run([&](int worker) {
          if (worker == 0) pool->run([](int) {});
        });
      },
      "one task at a time");
}

}  // namespace
}  // namespace penstock
