#include "memory/ngram_rows.h"

#include <limits>

#include "base/check.h"

namespace penstock {
namespace {

// What a token sees: itself and the two before it.
struct Window {
  int64_t current, previous, before_previous;
};

Window window_at(const NgramTable& table, std::span<const int32_t> ids, size_t at) {
  const int32_t previous = at >= 1 ? ids[at - 1] : table.eos;
  const bool is_first = previous == table.eos;
  return {ids[at], previous, at >= 2 && !is_first ? ids[at - 2] : table.eos};
}

}  // namespace

Result<void> check_ngram_table(const NgramTable& table, int64_t n_rows, int64_t n_vocab) {
  if (table.n_heads() == 0 || table.n_heads() % 2 != 0 || table.offsets.size() != table.n_heads()) {
    return fail(ErrorKind::kInvalidData,
                "an n-gram table has {} sizes and {} offsets of heads, expected an even number and "
                "as many",
                table.n_heads(), table.offsets.size());
  }
  for (const int64_t multiplier : table.multipliers) {
    if (multiplier < 1 || multiplier > std::numeric_limits<int64_t>::max() / n_vocab) {
      return fail(ErrorKind::kInvalidData,
                  "an n-gram table's multiplier {} is not in [1, 2^63 / {} tokens)", multiplier,
                  n_vocab);
    }
  }
  for (size_t head = 0; head < table.n_heads(); ++head) {
    const int64_t size = table.sizes[head];
    const int64_t offset = table.offsets[head];
    if (size < 1 || size > n_rows || offset < 0 || offset > n_rows - size) {
      return fail(ErrorKind::kInvalidData,
                  "head {} of an n-gram table has {} rows from {} on, but the table has {}", head,
                  size, offset, n_rows);
    }
  }
  if (table.eos < 0 || table.eos >= n_vocab) {
    return fail(ErrorKind::kInvalidData, "an n-gram table ends sequences with token {} of {}",
                table.eos, n_vocab);
  }
  return {};
}

std::vector<int64_t> ngram_rows(const NgramTable& table, std::span<const int32_t> ids,
                                size_t n_before) {
  PENSTOCK_CHECK(n_before <= ids.size(), "more context than ids");
  const auto& [m0, m1, m2] = table.multipliers;
  const size_t n_pairs = table.n_heads() / 2;
  std::vector<int64_t> rows;
  rows.reserve((ids.size() - n_before) * table.n_heads());
  for (size_t at = n_before; at < ids.size(); ++at) {
    const Window window = window_at(table, ids, at);
    const int64_t of_pair = (window.current * m0) ^ (window.previous * m1);
    const int64_t of_triple = of_pair ^ (window.before_previous * m2);
    for (size_t head = 0; head < table.n_heads(); ++head) {
      const int64_t hash = head < n_pairs ? of_pair : of_triple;
      rows.push_back(hash % table.sizes[head] + table.offsets[head]);
    }
  }
  return rows;
}

}  // namespace penstock
