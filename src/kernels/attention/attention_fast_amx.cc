// Tiles of 16 rows: S [rows, keys] = A [rows, head_dim] K^T, then O [rows, head_dim] += W V. The
// page's keys, in pairs of elements, and its values, in pairs of positions, are right operands as
// they lie; the queries and the weights become bf16 where they are, row by row.
#include <algorithm>
#include <bit>

#include "kernels/attention/attention_fast_lanes_avx512.h"
#include "kernels/attention/attention_fast_rows.h"
#include "kernels/tile_session.h"

namespace penstock {
namespace {

constexpr int64_t kTile = 16;       // rows of a tile; each holds 16 floats or 32 bf16
constexpr int64_t kTileDepth = 32;  // products that one tile multiplication adds to each sum

// Between stores and the tile loads that read them: g++ 12 does not know that the latter read
// memory.
inline void finish_stores() { asm volatile("" : : : "memory"); }

// One tile's rows of a block on one page.
struct TileOnPage {
  const FastAttentionTask& task;
  int64_t page = 0;
  int64_t first_row = 0;
  Range seen = {};                      // keys that some of the rows see
  const uint16_t* keys = nullptr;       // page_keys
  const uint16_t* values = nullptr;     // seen_values
  const uint16_t* next_keys = nullptr;  // of the next page, to be asked for meanwhile, or null
  const uint16_t* next_values = nullptr;

  Range rows() const { return {first_row, smaller_of(first_row + kTile, task.n_rows())}; }
  // Keys in whole tiles of products: all that is worked out.
  Range halves() const {
    return {seen.begin / kTileDepth, (seen.end + kTileDepth - 1) / kTileDepth};
  }
  // [kTile, head_dim]
  const uint16_t* queries() const {
    return reinterpret_cast<const uint16_t*>(task.queries.row(first_row));
  }
};

struct alignas(64) PageScores {
  float of_row[kTile][kPageTokens];
};
// Rows that a tile lacks keep what was there: nobody asks for their totals.
struct alignas(64) PageWeights {
  uint16_t of_row[kPageTokens / kTileDepth][kTile][kTileDepth];
};

inline __m512i as_words(__m512bh x) { return reinterpret_cast<__m512i>(x); }

// The tile's queries as left operands: a, and 0 for rows that the block does not have.
inline void pack_queries(const FastAttentionTask& task, int64_t first_row) {
  const int64_t head_dim = task.shape.head_dim;
  const Lanes c = all(task.shape.scale * kLog2E);
  auto* packed = reinterpret_cast<uint16_t*>(task.queries.row(first_row));
  for (int64_t row = first_row; row < first_row + kTile; ++row, packed += head_dim) {
    const float* const q = row < task.n_rows()
                               ? task.q.row(task.tokens.begin + row / task.heads.size()) +
                                     (task.heads.begin + row % task.heads.size()) * head_dim
                               : nullptr;
    for (int64_t d = 0; d < head_dim; d += kTileDepth) {
      const __m512i a =
          q == nullptr
              ? _mm512_setzero_si512()
              : as_words(_mm512_cvtne2ps_pbh((c * load(q + d + kLanes)).v, (c * load(q + d)).v));
      _mm512_storeu_si512(packed + d, a);
    }
  }
}

// Scores of all the page's keys, whether seen or not, in tiles 0 to 3: one tile of queries serves
// four of keys, and four sums hide each other's latency.
inline void score_page(const TileOnPage& tile, PageScores& scores) {
  constexpr int64_t kPairBytes = kPageTokens * 2 * sizeof(uint16_t);
  const int64_t head_dim = tile.task.shape.head_dim;
  const int64_t query_bytes = head_dim * static_cast<int64_t>(sizeof(uint16_t));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t d = 0; d < head_dim; d += kTileDepth) {
    const uint16_t* const keys = tile.keys + d * kPageTokens;
    _tile_loadd(4, tile.queries() + d, query_bytes);
    _tile_loadd(5, keys, kPairBytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, keys + 2 * kTile, kPairBytes);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(5, keys + 4 * kTile, kPairBytes);
    _tile_dpbf16ps(2, 4, 5);
    _tile_loadd(6, keys + 6 * kTile, kPairBytes);
    _tile_dpbf16ps(3, 4, 6);
  }
  constexpr int64_t kRowBytes = kPageTokens * sizeof(float);
  _tile_stored(0, scores.of_row[0], kRowBytes);
  _tile_stored(1, scores.of_row[0] + kTile, kRowBytes);
  _tile_stored(2, scores.of_row[0] + 2 * kTile, kRowBytes);
  _tile_stored(3, scores.of_row[0] + 3 * kTile, kRowBytes);
}

inline bool all_see_all(const TileOnPage& tile) {
  const Range rows = tile.rows();
  // Later rows see later keys: the page's last must be seen by the first, its first by the last.
  return seen_in_page(tile.task, {rows.begin, rows.begin + 1}, tile.page).end == kPageTokens &&
         seen_in_page(tile.task, {rows.end - 1, rows.end}, tile.page).begin == 0;
}

// Replaces scores that their row does not see, in the halves that are worked out.
inline void hide_unseen(const TileOnPage& tile, PageScores& scores) {
  const Range rows = tile.rows();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const Range seen = seen_in_page(tile.task, {row, row + 1}, tile.page);
    float* const of_row = scores.of_row[row - rows.begin];
    for (int64_t k = tile.halves().begin * kTileDepth; k < tile.halves().end * kTileDepth;
         k += kLanes) {
      store(of_row + k, seen_scores(of_row, k, seen));
    }
  }
}

// m' of each row.
inline Lanes new_maxima(const TileOnPage& tile, const PageScores& scores, Lanes before) {
  alignas(64) float maxima[kTile];
  store(maxima, before);
  const Range halves = tile.halves();
  for (int64_t r = 0; r < tile.rows().size(); ++r) {
    Lanes two[2] = {all(maxima[r]), all(maxima[r])};
    for (int64_t k = halves.begin * kTileDepth; k < halves.end * kTileDepth; k += kTileDepth) {
      two[0] = larger(load(scores.of_row[r] + k), two[0]);
      two[1] = larger(load(scores.of_row[r] + k + kLanes), two[1]);
    }
    maxima[r] = largest(larger(two[0], two[1]));
  }
  return load(maxima);
}

// The weights of 32 keys, rounded to bf16, to the nearest, ties up.
inline __m512i round_weights(Lanes first, Lanes second) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  alignas(64) static constexpr int16_t kHighHalves[32] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(_mm512_add_epi32(_mm512_castps_si512(first.v), half),
                                   _mm512_load_si512(kHighHalves),
                                   _mm512_add_epi32(_mm512_castps_si512(second.v), half));
}

// Asks for one of kTile parts of the next page. The softmax is the time for it, as it leaves memory
// alone; asking for the whole page at once holds up the reads that come next.
[[gnu::always_inline]] inline void prefetch_part(const TileOnPage& tile, int64_t part) {
  if (tile.next_keys == nullptr) return;
  constexpr int64_t kLine = 64 / sizeof(uint16_t);
  const int64_t n = kPageTokens / kTile * tile.task.shape.head_dim;
  for (int64_t i = part * n; i < (part + 1) * n; i += kLine) {
    __builtin_prefetch(tile.next_keys + i, 0, 2);
    __builtin_prefetch(tile.next_values + i, 0, 2);
  }
}

// Turns one row's scores into weights, rounded for the tile. Returns the sums of them before the
// rounding: of keys that are equal mod 16.
inline Lanes weigh_row(const TileOnPage& tile, const float* scores, Lanes max, int64_t row_of_tile,
                       PageWeights& weights) {
  const Range halves = tile.halves();
  Lanes sums[2] = {zero(), zero()};
  for (int64_t half = halves.begin; half < halves.end; ++half) {
    const float* const of_half = scores + half * kTileDepth;
    const Lanes first = exp2_lanes(load(of_half) - max);
    const Lanes second = exp2_lanes(load(of_half + kLanes) - max);
    sums[0] = sums[0] + first;
    sums[1] = sums[1] + second;
    _mm512_store_si512(weights.of_row[half][row_of_tile], round_weights(first, second));
  }
  return sums[0] + sums[1];
}

// The weights of all rows, and their l.
inline void weigh(const TileOnPage& tile, const PageScores& scores, Lanes maxima, Lanes factors,
                  PageWeights& weights) {
  alignas(64) float max[kTile];
  alignas(64) float factor[kTile];
  store(max, maxima);
  store(factor, factors);
  const int64_t n_rows = tile.rows().size();
  for (int64_t r = 0; r < kTile; ++r) {
    prefetch_part(tile, r);
    if (r >= n_rows) continue;
    const Lanes added = weigh_row(tile, scores.of_row[r], all(max[r]), r, weights);
    float* const sums = tile.task.sums.row(tile.first_row + r);
    store(sums, fma(load(sums), all(factor[r]), added));
  }
}

// o = f o, where f is not 1: most pages hold no new maximum for most rows.
inline void scale_totals(const TileOnPage& tile, Lanes factors) {
  uint32_t changed = _mm512_cmp_ps_mask(factors.v, all(1.0F).v, _CMP_NEQ_UQ);
  alignas(64) float factor[kTile];
  store(factor, factors);
  for (; changed != 0; changed &= changed - 1) {
    const int r = std::countr_zero(changed);
    float* const total = tile.task.totals.row(tile.first_row + r);
    const Lanes f = all(factor[r]);
    for (int64_t d = 0; d < tile.task.totals.cols; d += kLanes) {
      store(total + d, load(total + d) * f);
    }
  }
}

// o += sum_j w_j v_j, for 32 elements from d on.
inline void add_values(const TileOnPage& tile, const PageWeights& weights, int64_t d) {
  const int64_t head_dim = tile.task.shape.head_dim;
  const int64_t total_bytes = tile.task.totals.stride * static_cast<int64_t>(sizeof(float));
  const int64_t pair_bytes = 2 * head_dim * static_cast<int64_t>(sizeof(uint16_t));
  float* const totals = tile.task.totals.row(tile.first_row) + d;
  _tile_loadd(0, totals, total_bytes);
  _tile_loadd(1, totals + kTile, total_bytes);
  for (int64_t half = tile.halves().begin; half < tile.halves().end; ++half) {
    const uint16_t* const values = tile.values + half * kTileDepth * head_dim + 2 * d;
    _tile_loadd(4, weights.of_row[half], 64);
    _tile_loadd(5, values, pair_bytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, values + 2 * kTile, pair_bytes);
    _tile_dpbf16ps(1, 4, 6);
  }
  _tile_stored(0, totals, total_bytes);
  _tile_stored(1, totals + kTile, total_bytes);
}

inline void attend_page(const TileOnPage& tile, PageWeights& weights) {
  const FastAttentionTask& task = tile.task;
  PageScores scores;
  score_page(tile, scores);
  if (!all_see_all(tile)) hide_unseen(tile, scores);

  const Lanes before = load(task.maxima + tile.first_row);
  const Lanes maxima = new_maxima(tile, scores, before);
  const Lanes factors = exp2_lanes(before - maxima);
  weigh(tile, scores, maxima, factors, weights);
  store(task.maxima + tile.first_row, maxima);

  scale_totals(tile, factors);
  finish_stores();
  for (int64_t d = 0; d < task.shape.head_dim; d += kTileDepth) add_values(tile, weights, d);
}

}  // namespace

void attend_fast_amx(const FastAttentionTask& task) {
  const TileSession session;
  for (int64_t row = 0; row < task.n_rows(); row += kTile) pack_queries(task, row);
  start_rows(task);
  // Rows that fill the last tile: their factor is 1, so nothing is done for them.
  std::fill(task.maxima + task.n_rows(), task.maxima + task.totals.n_rows, 0.0F);
  PageWeights weights = {};
  finish_stores();
  for (int64_t p = task.pages.begin; p < task.pages.end; ++p) {
    TileOnPage tile = {task, p};
    tile.keys = page_keys(task, p);
    tile.values = seen_values(task, p);
    for (; tile.first_row < task.n_rows(); tile.first_row += kTile) {
      tile.seen = seen_in_page(task, tile.rows(), p);
      const bool is_first = tile.first_row == 0 && p + 1 < task.pages.end;
      tile.next_keys = is_first ? page_keys(task, p + 1) : nullptr;
      tile.next_values = is_first ? page_values(task, p + 1) : nullptr;
      if (tile.seen.size() > 0) attend_page(tile, weights);
    }
  }
  finish_rows(task);
}

}  // namespace penstock
