#include "memory/routing/compared_policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "memory/forecast_policy.h"
#include "memory/routing/made_up_routing_test.h"

namespace penstock {
namespace {

constexpr double kHalfLife = 20.0;

// A policy runs over a record, and after each visit every expert's worth is what a plain function
// of the record and the number of that visit says.
class History {
 public:
  History(const RoutingRecord& record, size_t n_visits) : record_(&record), n_visits_(n_visits) {}

  size_t n_visits() const { return n_visits_; }
  bool uses(size_t visit, ExpertId id) const {
    const auto visited = record_->visits()[visit];
    const auto experts = record_->experts(visited);
    return visited.layer == id.layer && std::ranges::find(experts, id.index) != experts.end();
  }
  const RoutingRecord& record() const { return *record_; }

 private:
  const RoutingRecord* record_;
  size_t n_visits_;  // that are over
};

using Worth = std::function<double(const History& history, ExpertId id)>;

void expect_worth(EvictionPolicy& policy, const RoutingRecord& record, const Worth& expected) {
  std::vector<ExpertId> all;
  for (int layer = 0; layer < record.shape().n_layers; ++layer) {
    for (int e = 0; e < record.shape().n_experts; ++e) {
      all.push_back({static_cast<uint16_t>(layer), static_cast<uint16_t>(e)});
    }
  }
  std::vector<double> worth(all.size());
  for (size_t v = 0; v < record.visits().size(); ++v) {
    policy.use(record.visits()[v].layer, record.experts(record.visits()[v]));
    policy.rate(all, worth);
    const History history(record, v + 1);
    for (size_t i = 0; i < all.size(); ++i) {
      const double wanted = expected(history, all[i]);
      if (std::isinf(wanted)) {
        EXPECT_EQ(worth[i], wanted) << v << ' ' << all[i].layer << ' ' << all[i].index;
      } else {
        EXPECT_NEAR(worth[i], wanted, 1e-9 * (1.0 + std::abs(wanted)))
            << v << ' ' << all[i].layer << ' ' << all[i].index;
      }
    }
  }
}

class ComparedPolicies : public testing::TestWithParam<uint32_t> {
 protected:
  RoutingRecord made_up(bool is_cyclic) {
    return made_up_routing(
        {.n_layers = 3, .n_experts = 5, .n_steps = 15, .is_cyclic = is_cyclic, .repeats = 3},
        random_);
  }
  std::mt19937 random_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Seeds, ComparedPolicies, testing::Values(1u, 2u, 3u));

TEST_P(ComparedPolicies, LruIsTheNumberOfTheLastUse) {
  LruPolicy policy(3, 5);
  expect_worth(policy, made_up(false), [](const History& history, ExpertId id) {
    for (size_t v = history.n_visits(); v-- > 0;) {
      if (history.uses(v, id)) return static_cast<double>(v + 1);
    }
    return 0.0;
  });
}

TEST_P(ComparedPolicies, LfuIsTheSumOfDecayedUses) {
  LfuPolicy policy(3, 5, kHalfLife, LfuPolicy::Memory::kAll);
  expect_worth(policy, made_up(false), [](const History& history, ExpertId id) {
    double sum = 0.0;
    for (size_t v = 0; v < history.n_visits(); ++v) {
      if (history.uses(v, id)) sum += std::exp2(static_cast<double>(v + 1) / kHalfLife);
    }
    return std::log2(sum);
  });
}

TEST(LfuPolicy, OfResidentsForgetsWhatWasEvicted) {
  LfuPolicy policy(1, 3, kHalfLife, LfuPolicy::Memory::kResidents);
  for (int i = 0; i < 5; ++i) policy.use(0, std::vector{0});
  policy.use(0, std::vector{1});
  const auto is_worth_less = [&](uint16_t a, uint16_t b) {
    const ExpertId ids[] = {{0, a}, {0, b}};
    double worth[2];
    policy.rate(ids, worth);
    return worth[0] < worth[1];
  };
  EXPECT_TRUE(is_worth_less(1, 0));
  policy.evicted({0, 0});
  policy.use(0, std::vector{0});
  policy.use(0, std::vector{1});
  EXPECT_TRUE(is_worth_less(0, 1));
}

TEST_P(ComparedPolicies, RoundIsHowFarAheadTheLayerIs) {
  RoundPolicy policy(3);
  expect_worth(policy, made_up(true), [](const History& history, ExpertId id) {
    int ahead = 0;
    for (int layer = history.record().visits()[history.n_visits() - 1].layer + 1;
         layer % 3 != id.layer; ++layer) {
      ++ahead;
    }
    return -static_cast<double>(ahead);
  });
}

TEST_P(ComparedPolicies, BeladyIsTheVisitOfTheNextUse) {
  const RoutingRecord record = made_up(false);
  BeladyPolicy policy(record);
  expect_worth(policy, record, [](const History& history, ExpertId id) {
    for (size_t v = history.n_visits(); v < history.record().visits().size(); ++v) {
      if (history.uses(v, id)) return -static_cast<double>(v);
    }
    return -static_cast<double>(INT64_MAX);
  });
}

// The shipped policy, from its definition: everything is summed anew over the whole history.
double forecast(const History& history, ExpertId id) {
  constexpr double kForecastHalfLife = 128.0;
  const auto& [model, n_layers, n_experts, top_k] = history.record().shape();
  const double share = static_cast<double>(top_k) / n_experts;
  const auto visits = history.record().visits();
  const auto decayed = [&](size_t age, double half_life) {
    return std::exp2(-static_cast<double>(age) / half_life);
  };
  // Visits before `end` of a layer, newest first.
  const auto visits_of = [&](int layer, size_t end) {
    std::vector<size_t> of_layer;
    for (size_t v = end; v-- > 0;) {
      if (visits[v].layer == layer) of_layer.push_back(v);
    }
    return of_layer;
  };
  const auto frequency = [&](ExpertId expert, size_t end) {
    double n_uses = share, n_visits = 1.0;
    const std::vector<size_t> of_layer = visits_of(expert.layer, end);
    for (size_t age = 0; age < of_layer.size(); ++age) {
      n_visits += decayed(age, kForecastHalfLife);
      if (history.uses(of_layer[age], expert)) n_uses += decayed(age, kForecastHalfLife);
    }
    return n_uses / n_visits;
  };
  const auto was_used = [&](ExpertId expert, size_t end) {
    const std::vector<size_t> of_layer = visits_of(expert.layer, end);
    return !of_layer.empty() && history.uses(of_layer.front(), expert);
  };

  const std::vector<size_t> of_layer = visits_of(id.layer, history.n_visits());
  double chance = share;
  if (!of_layer.empty()) {
    // What was known of repeats when the layer was visited last.
    const size_t last = of_layer.front();
    double n_last = 0.0, n_expected = 0.0, n_repeated = 0.0;
    for (size_t v = 0; v <= last; ++v) {
      const double weight = decayed(last - v, kForecastHalfLife * n_layers);
      for (int e = 0; e < n_experts; ++e) {
        const ExpertId expert = {visits[v].layer, static_cast<uint16_t>(e)};
        if (!was_used(expert, v)) continue;
        n_last += weight;
        n_expected += weight * frequency(expert, v);
        n_repeated += history.uses(v, expert) ? weight : 0.0;
      }
    }
    const double repeats =
        n_last > n_expected
            ? std::clamp((n_repeated - n_expected) / (n_last - n_expected), 0.0, 1.0)
            : 0.0;
    chance = (1.0 - repeats) * frequency(id, last + 1) + (history.uses(last, id) ? repeats : 0.0);
  }
  int ahead = 1;
  for (int layer = visits[history.n_visits() - 1].layer + 1; layer % n_layers != id.layer;
       ++layer) {
    ++ahead;
  }
  return chance / ahead;
}

TEST_P(ComparedPolicies, ForecastIsItsDefinition) {
  ForecastPolicy policy(3, 5, 2);
  expect_worth(policy, made_up(true), forecast);
}

TEST(ForecastPolicy, LearnsThatWhatWasUsedIsUsedAgain) {
  const auto chances = [](bool repeats) {
    ForecastPolicy policy(1, 8, 1);
    std::mt19937 random(5);
    int expert = 0;
    for (int i = 0; i < 400; ++i) {
      if (!repeats || random() % 2 == 0) expert = static_cast<int>(random() % 8);
      policy.use(0, std::span(&expert, 1));
    }
    const int other = (expert + 1) % 8;
    return std::pair{policy.chance({0, static_cast<uint16_t>(expert)}),
                     policy.chance({0, static_cast<uint16_t>(other)})};
  };
  // Half of the visits keep the last one's expert, the others draw one of eight.
  const auto [again, other] = chances(true);
  EXPECT_NEAR(again, 0.5 + 0.5 / 8, 0.1);
  EXPECT_NEAR(other, 0.5 / 8, 0.05);
  EXPECT_NEAR(chances(false).first, 1.0 / 8, 0.1);
}

}  // namespace
}  // namespace penstock
