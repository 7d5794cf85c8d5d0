// Tiles of 16 rows: S^T [keys, rows] = K [keys, head_dim] A^T, then O [rows, head_dim] += W V. The
// page's keys are a left operand and its values, in pairs of positions, a right one as they lie;
// only the few queries and weights are rearranged.
#include <bit>

#include "kernels/attention/attention_fast_lanes_avx512.h"
#include "kernels/attention/attention_fast_task.h"
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
  const uint16_t* queries() const {
    return reinterpret_cast<const uint16_t*>(task.queries.row(first_row));
  }
};

struct alignas(64) PageScores {
  float of_key[kPageTokens][kTile];
};
struct alignas(64) PageWeights {
  uint16_t of_row[kPageTokens / kTileDepth][kTile][kTileDepth];
};

inline __m512i as_words(__m512bh x) { return reinterpret_cast<__m512i>(x); }

// The tile's queries as right operands: for 32 elements at a time, [16 pairs of elements, 16 rows].
inline void pack_queries(const FastAttentionTask& task, int64_t first_row) {
  const int64_t head_dim = task.shape.head_dim;
  const Lanes c = all(task.shape.scale * kLog2E);
  auto* const packed = reinterpret_cast<uint16_t*>(task.queries.row(first_row));
  const float* q[kTile] = {};
  for (int64_t r = 0; r < kTile && first_row + r < task.n_rows(); ++r) {
    const int64_t row = first_row + r;
    q[r] = task.q.row(task.tokens.begin + row / task.heads.size()) +
           (task.heads.begin + row % task.heads.size()) * head_dim;
  }
  for (int64_t d = 0; d < head_dim; d += kTileDepth) {
    __m512i pairs[kTile];
    for (int64_t r = 0; r < kTile; ++r) {
      pairs[r] = q[r] == nullptr ? _mm512_setzero_si512()
                                 : as_words(_mm512_cvtne2ps_pbh((c * load(q[r] + d + kLanes)).v,
                                                                (c * load(q[r] + d)).v));
    }
    transpose(pairs);
    for (int64_t i = 0; i < kTile; ++i) {
      _mm512_store_si512(packed + d * kTile + i * kTileDepth, pairs[i]);
    }
  }
}

inline void start_rows(const FastAttentionTask& task) {
  const bool has_sinks = !task.sinks.empty();
  for (int64_t row = 0; row < task.totals.n_rows; ++row) {
    const int64_t h = task.heads.begin + row % task.heads.size();
    task.maxima[row] = has_sinks ? task.sinks.data()[h] * kLog2E : kLowestMax;
    task.sums.data[row] = has_sinks ? 1.0F : 0.0F;
    for (int64_t d = 0; d < task.totals.cols; d += kLanes) store(task.totals.row(row) + d, zero());
  }
}

// The two keys' weights of each row, rounded to bf16, the first in the lower half.
inline __m512i round_weights(Lanes first, Lanes second) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(first.v), half), 16);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(second.v), half);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, low, high);
}

// Scores of all the page's keys, whether seen or not, in tiles 0 to 3: one tile of queries serves
// four of keys, and four sums hide each other's latency.
inline void score_page(const TileOnPage& tile, PageScores& scores) {
  const int64_t head_dim = tile.task.shape.head_dim;
  const int64_t key_bytes = head_dim * static_cast<int64_t>(sizeof(uint16_t));
  const uint16_t* const queries = tile.queries();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t d = 0; d < head_dim; d += kTileDepth) {
    const uint16_t* const keys = tile.keys + d;
    _tile_loadd(4, queries + d * kTile, 64);
    _tile_loadd(5, keys, key_bytes);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, keys + kTile * head_dim, key_bytes);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(5, keys + 2 * kTile * head_dim, key_bytes);
    _tile_dpbf16ps(2, 5, 4);
    _tile_loadd(6, keys + 3 * kTile * head_dim, key_bytes);
    _tile_dpbf16ps(3, 6, 4);
  }
  _tile_stored(0, scores.of_key[0], 64);
  _tile_stored(1, scores.of_key[kTile], 64);
  _tile_stored(2, scores.of_key[2 * kTile], 64);
  _tile_stored(3, scores.of_key[3 * kTile], 64);
}

// Gives keys the weight 0 for rows that do not see them.
inline void hide_unseen(const TileOnPage& tile, PageScores& scores) {
  alignas(64) int32_t begin[kTile] = {};
  alignas(64) int32_t end[kTile] = {};
  const Range rows = tile.rows();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const Range seen = seen_in_page(tile.task, {row, row + 1}, tile.page);
    begin[row - rows.begin] = static_cast<int32_t>(seen.begin);
    end[row - rows.begin] = static_cast<int32_t>(seen.end);
  }
  const __m512i begins = _mm512_load_si512(begin);
  const __m512i ends = _mm512_load_si512(end);
  for (int64_t j = tile.halves().begin * kTileDepth; j < tile.halves().end * kTileDepth; ++j) {
    const __m512i key = _mm512_set1_epi32(static_cast<int>(j));
    const __mmask16 is_seen =
        _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(begins, key), key, ends);
    const Lanes hidden = all(-ExpConstants::kInfinity);
    store(scores.of_key[j], {_mm512_mask_blend_ps(is_seen, hidden.v, load(scores.of_key[j]).v)});
  }
}

inline bool all_see_all(const TileOnPage& tile) {
  const Range rows = tile.rows();
  // Later rows see later keys: the page's last must be seen by the first, its first by the last.
  return seen_in_page(tile.task, {rows.begin, rows.begin + 1}, tile.page).end == kPageTokens &&
         seen_in_page(tile.task, {rows.end - 1, rows.end}, tile.page).begin == 0;
}

// m' of each row.
inline Lanes new_maxima(Lanes maxima, const PageScores& scores, Range halves) {
  Lanes four[4] = {maxima, maxima, maxima, maxima};
  for (int64_t j = halves.begin * kTileDepth; j < halves.end * kTileDepth; j += 4) {
    for (int i = 0; i < 4; ++i) four[i] = larger(load(scores.of_key[j + i]), four[i]);
  }
  return larger(larger(four[0], four[1]), larger(four[2], four[3]));
}

// 2^(s - m) of two keys, added to `sums`, and rounded for the tile.
inline __m512i weigh_pair(const float* scores, Lanes maxima, Lanes sums[2]) {
  const Lanes first = exp2_lanes(load(scores) - maxima);
  const Lanes second = exp2_lanes(load(scores + kTile) - maxima);
  sums[0] = sums[0] + first;
  sums[1] = sums[1] + second;
  return round_weights(first, second);
}

// Asks for one of kPrefetchParts of the next page. The softmax is the time for it, as it leaves
// memory alone; asking for the whole page at once holds up the reads that come next.
constexpr int64_t kPrefetchParts = kPageTokens / 4;
[[gnu::always_inline]] inline void prefetch_part(const TileOnPage& tile, int64_t part) {
  if (tile.next_keys == nullptr) return;
  constexpr int64_t kLine = 64 / sizeof(uint16_t);
  const int64_t n = kPageTokens / kPrefetchParts * tile.task.shape.head_dim;
  for (int64_t i = part * n; i < (part + 1) * n; i += kLine) {
    __builtin_prefetch(tile.next_keys + i, 0, 2);
    __builtin_prefetch(tile.next_values + i, 0, 2);
  }
}

// Turns scores into weights, rounded to bf16 and with rows along the tile's. Returns each row's sum
// of them before the rounding: of keys that are equal mod 4, and then of these four.
inline Lanes weigh(const TileOnPage& tile, const PageScores& scores, Lanes maxima,
                   PageWeights& weights) {
  const Range halves = tile.halves();
  Lanes even[2] = {zero(), zero()};
  Lanes odd[2] = {zero(), zero()};
  for (int64_t half = halves.begin; half < halves.end; ++half) {
    __m512i pairs[kTile];
    for (int64_t i = 0; i < kTile; i += 2) {
      const float* const of_key = scores.of_key[half * kTileDepth + 2 * i];
      prefetch_part(tile, half * kTile / 2 + i / 2);
      pairs[i] = weigh_pair(of_key, maxima, even);
      pairs[i + 1] = weigh_pair(of_key + 2 * kTile, maxima, odd);
    }
    transpose(pairs);
    for (int64_t r = 0; r < kTile; ++r) _mm512_store_si512(weights.of_row[half][r], pairs[r]);
  }
  return (even[0] + even[1]) + (odd[0] + odd[1]);
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

inline void attend_page(const TileOnPage& tile) {
  const FastAttentionTask& task = tile.task;
  PageScores scores;
  score_page(tile, scores);
  if (!all_see_all(tile)) hide_unseen(tile, scores);

  PageWeights weights;
  const Lanes before = load(task.maxima + tile.first_row);
  const Lanes maxima = new_maxima(before, scores, tile.halves());
  const Lanes factors = exp2_lanes(before - maxima);
  const Lanes added = weigh(tile, scores, maxima, weights);
  store(task.maxima + tile.first_row, maxima);
  float* const sums = task.sums.data + tile.first_row;
  store(sums, fma(load(sums), factors, added));

  scale_totals(tile, factors);
  finish_stores();
  for (int64_t d = 0; d < task.shape.head_dim; d += kTileDepth) add_values(tile, weights, d);
}

inline void finish_rows(const FastAttentionTask& task) {
  const int64_t head_dim = task.shape.head_dim;
  int64_t row = 0;
  for (int64_t t = task.tokens.begin; t < task.tokens.end; ++t) {
    for (int64_t h = task.heads.begin; h < task.heads.end; ++h, ++row) {
      const Lanes l = all(task.sums.data[row]);
      const float* const total = task.totals.row(row);
      float* const y = task.y.row(t) + h * head_dim;
      for (int64_t d = 0; d < head_dim; d += kLanes) store(y + d, load(total + d) / l);
    }
  }
}

}  // namespace

void attend_fast_amx(const FastAttentionTask& task) {
  const TileSession session;
  for (int64_t row = 0; row < task.n_rows(); row += kTile) pack_queries(task, row);
  start_rows(task);
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
      if (tile.seen.size() > 0) attend_page(tile);
    }
  }
  finish_rows(task);
}

}  // namespace penstock
