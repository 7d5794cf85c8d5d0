// Which rows of an n-gram table a token reads: a hash of the token and the two before it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace penstock {

// A table of one block of rows for each head, the first half of the heads for pairs of tokens, the
// second for triples. The numbers come with the checkpoint (Qwen3.8-Flash-Next:
// ple.ple_embedding.*), whose authors define them as
//   b2 = (t0 * m[0]) xor (t1 * m[1])    b3 = b2 xor (t2 * m[2])
//   row[h] = (h is of the first half ? b2 : b3) mod sizes[h] + offsets[h]
// for the token t0 and those before it, t1 and t2.
struct NgramTable {
  std::array<int64_t, 3> multipliers = {};  // m: odd, and so small that no product overflows
  std::vector<int64_t> sizes = {};    // of each head's block, in rows; an even number of heads
  std::vector<int64_t> offsets = {};  // its first row
  int32_t eos = 0;  // stands for what is before a sequence; nothing before one is seen

  size_t n_heads() const { return sizes.size(); }
};

// Refuses numbers that no table can have, for n_rows rows and ids below n_vocab.
Result<void> check_ngram_table(const NgramTable& table, int64_t n_rows, int64_t n_vocab);

// The rows of ids[n_before], ids[n_before + 1], ..., heads side by side: [ids.size() - n_before,
// n_heads] numbers. The first n_before ids, at most two, are there for the others to see; fewer
// where the sequence begins. Ids are in [0, n_vocab) of a table that was checked.
std::vector<int64_t> ngram_rows(const NgramTable& table, std::span<const int32_t> ids,
                                size_t n_before);

}  // namespace penstock
