#include "text/jinja/sort.h"

#include "text/jinja/compare.h"

namespace penstock {
namespace {

// Merges the ascending runs [begin, middle) and [middle, end) of `from` into `to`. Not
// std::stable_sort: its comparison must be an order, and Python's need be neither total (NaN) nor
// defined (a str and an int).
Result<void> merge_runs(JinjaMeter& meter, const JinjaValues& keys, JinjaOrder order,
                        const std::vector<size_t>& from, std::vector<size_t>& to, size_t begin,
                        size_t middle, size_t end) {
  size_t left = begin;
  size_t right = middle;
  for (size_t at = begin; at < end; ++at) {
    bool take_right = left == middle;
    if (!take_right && right < end) {
      PENSTOCK_ASSIGN(take_right, jinja_ordered(meter, order, keys[from[right]], keys[from[left]]));
    }
    to[at] = from[take_right ? right++ : left++];
  }
  return {};
}

}  // namespace

Result<std::vector<size_t>> sorted_order(JinjaMeter& meter, const JinjaValues& keys,
                                         bool descending) {
  const JinjaOrder order = descending ? JinjaOrder::kGreater : JinjaOrder::kLess;
  std::vector<size_t> ranks(keys.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  std::vector<size_t> merged(ranks);
  for (size_t run = 1; run < ranks.size(); run *= 2) {
    for (size_t begin = 0; begin < ranks.size(); begin += 2 * run) {
      const size_t middle = std::min(begin + run, ranks.size());
      const size_t end = std::min(middle + run, ranks.size());
      PENSTOCK_TRY(merge_runs(meter, keys, order, ranks, merged, begin, middle, end));
    }
    std::swap(ranks, merged);
  }
  return ranks;
}

}  // namespace penstock
