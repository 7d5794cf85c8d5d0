// The integer product of several tokens on AMX: a tile multiplies a group's codes with both bytes
// of eight tokens' at once, which VNNI does word by word. Its sums are exact, so the bits are the
// same.
#include <immintrin.h>

#include <algorithm>

#include "kernels/matmul/integer_lanes_avx512.h"
#include "kernels/matmul/integer_product.h"
#include "kernels/tile_session.h"

namespace penstock {
namespace {

constexpr int kTokens = int{kInt16RowGroup};

// Tiles 0 and 1 have sums, 2 and 3 weights' codes, 4 and 5 tokens': of even groups and of odd.
// Multiplying and storing take a cycle for each row: there are no more than tokens have.
template <class Panel>
TileSession begin_tiles(int64_t n_tokens) {
  const auto rows = static_cast<uint8_t>(2 * std::min<int64_t>(n_tokens, kTokens));
  const TileShape sums = {rows, 64};
  const TileShape weights = {Panel::kGroup / 4, 64};
  const TileShape tokens = {rows, Panel::kGroup};
  return TileSession({sums, sums, weights, weights, tokens, tokens});
}

// A group of a panel's columns on its way through the stages of multiply_panel.
template <class Panel>
struct TiledGroup {
  int64_t number;           // in its row
  Words sums[2 * kTokens];  // of the products with each token's high and low bytes
  Words codes[Panel::kGroup / 4];
  Floats factors, offsets;
};

// Multiplies group number g and stores the sums of the one before: a tile that is still being
// summed up would hold up those behind it.
template <class Panel>
[[gnu::always_inline]] inline void multiply_tiles(uint64_t g, TiledGroup<Panel>& group,
                                                  TiledGroup<Panel>& before, const int8_t* x,
                                                  int64_t x_stride) {
  asm volatile("" : : : "memory");  // g++ 12 does not know that tiles are loaded from memory
  if (g % 2 == 0) {
    _tile_zero(0);
    _tile_loadd(2, group.codes, 64);
    _tile_loadd(4, x, x_stride);
    _tile_dpbsud(0, 4, 2);
    _tile_stored(1, before.sums, 64);
  } else {
    _tile_zero(1);
    _tile_loadd(3, group.codes, 64);
    _tile_loadd(5, x, x_stride);
    _tile_dpbsud(1, 5, 3);
    _tile_stored(0, before.sums, 64);
  }
}

template <class Panel>
void store_last_tiles(int64_t g, TiledGroup<Panel>& group) {
  if (g % 2 == 0) {
    _tile_stored(0, group.sums, 64);
  } else {
    _tile_stored(1, group.sums, 64);
  }
}

// The sums of T tokens in as many registers. They are no array: it would have to be in memory
// wherever tiles are loaded.
template <int T>
struct TokenSums : TokenSums<T - 1> {
  Floats sum = all_floats(0.0F);

  template <class Panel>
  [[gnu::always_inline]] void add(const TiledGroup<Panel>& group, const Int16Row& first) {
    TokenSums<T - 1>::add(group, first);
    constexpr int t = T - 1;
    Int16Row token = first;
    token.scales += t;
    token.sums_16 += t;
    token.sums_32 += t;
    const Words products = add_words(shift_left_32(group.sums[2 * t], 8), group.sums[2 * t + 1]);
    add_products<Panel>(products, group.factors, group.offsets, token, group.number, sum);
  }
  [[gnu::always_inline]] void store(Floats* to) const {
    TokenSums<T - 1>::store(to);
    to[T - 1] = sum;
  }
};
template <>
struct TokenSums<0> {
  template <class Panel>
  [[gnu::always_inline]] void add(const TiledGroup<Panel>& /*group*/, const Int16Row& /*first*/) {}
  [[gnu::always_inline]] void store(Floats* /*to*/) const {}
};

// y[t, r] of the panel's rows r in `stored`, for n <= T tokens. Groups go through a ring: while one
// is unpacked tiles multiply an earlier one and a still earlier one is scaled, for neither tiles
// nor vectors are loaded from stores that are still on their way to the cache.
template <class Panel, int T>
void multiply_tiled_panel(const StoredRows& w, int64_t row, bool ahead, const Int16Row* x, int n,
                          float scale, Range stored, float* y, int64_t y_stride) {
  constexpr uint64_t kRing = 8;
  constexpr int64_t kBehind = 2, kAddBehind = 2 * kBehind + 1;
  TiledGroup<Panel> ring[kRing];
  const Int16Row first = *x;
  const int64_t x_stride = first.low - first.high;
  TokenSums<T> sums;
  const auto multiply = [&](uint64_t g) __attribute__((always_inline)) {
    TiledGroup<Panel>& group = ring[g % kRing];
    multiply_tiles(g, group, ring[(g - 1) % kRing], first.high + group.number * Panel::kGroup,
                   x_stride);
  };
  const auto add = [&](uint64_t g) __attribute__((always_inline)) {
    sums.template add<Panel>(ring[g % kRing], first);
  };
  int64_t n_groups = 0;
  const auto take = [&](const StoredGroup<Panel>& stored_group) __attribute__((always_inline)) {
    if (n_groups >= kBehind) multiply(n_groups - kBehind);
    TiledGroup<Panel>& group = ring[n_groups % kRing];
    group.number = stored_group.number;
    stored_group.codes(group.codes);
    group.factors = stored_group.factors();
    group.offsets = stored_group.offsets();
    if (n_groups >= kAddBehind) add(n_groups - kAddBehind);
    ++n_groups;
  };
  for_each_group<Panel>(w, row, ahead, take);
  for (int64_t g = std::max<int64_t>(0, n_groups - kBehind); g < n_groups; ++g) multiply(g);
  store_last_tiles(n_groups - 1, ring[(n_groups - 1) % kRing]);
  for (int64_t g = std::max<int64_t>(0, n_groups - kAddBehind); g < n_groups; ++g) add(g);
  Floats of_token[T];
  sums.store(of_token);
  for (int t = 0; t < n; ++t) {
    store_rows(y + t * y_stride, stored.begin, stored.size(), of_token[t] * all_floats(scale));
  }
}

struct TileProduct {
  template <class Panel>
  static void multiply_rows(const StoredRows& w, int64_t n_rows, Range rows, const Int16Row* x,
                            int64_t n_tokens, float scale, float* y, int64_t y_stride) {
    const TileSession tiles = begin_tiles<Panel>(n_tokens);
    for_each_panel(n_rows, rows, [&](int64_t row, Range stored) {
      for (int64_t t = 0; t < n_tokens; t += kTokens) {
        const auto n = static_cast<int>(std::min<int64_t>(kTokens, n_tokens - t));
        const auto multiply =
            n > 4 ? multiply_tiled_panel<Panel, 8> : multiply_tiled_panel<Panel, 4>;
        multiply(w, row, /*ahead=*/t == 0, x + t, n, scale, stored, y + row + t * y_stride,
                 y_stride);
      }
    });
  }
};

constexpr IntegerKernels kKernels = make_integer_kernels<TileProduct>();

}  // namespace

const IntegerKernels& integer_kernels_amx() { return kKernels; }

}  // namespace penstock
