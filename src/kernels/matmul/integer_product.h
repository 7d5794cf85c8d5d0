// The integer product, for the rows of a panel at a time. For a group of columns
//   sum w x = factor scale (sum u code) + offset (scale sum code)
// where w = factor u + offset, u an unsigned code of at most 8 bits; the sum of products is exact
// in int32 and the last bracket known from the activations. Included by ISA files after their
// integer_lanes_*.h. Products is how they sum, e.g. VnniProducts:
//   kTokensAtOnce       a power of 2, at most 4
//   sum<Panel, N>(codes, x, column, sums)  sums[t] = sum u code over the group from `column` on
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/matmul/integer_kernels.h"
#include "kernels/matmul/integer_panels.h"
#include "kernels/matmul/prefetch_x86.h"

namespace penstock {
namespace {

// Four codes of a token, in every lane.
[[gnu::always_inline]] inline Words word_of(const int8_t* codes) {
  int32_t word;
  std::memcpy(&word, codes, sizeof word);
  return all_words(word);
}

// Adds a group's share to a token's sums: `products` is sum u code of the panel's rows.
template <class Panel>
[[gnu::always_inline]] inline void add_products(Words products, Floats factors, Floats offsets,
                                                const Int16Row& token, int64_t group, Floats& sum) {
  const Floats scale = all_floats(token.scale(group * Panel::kGroup / kInt16Group));
  const float code_sum = Panel::kGroup == 32 ? token.sum_32(group) : token.sum_16(group);
  sum = fma_floats(to_floats(products), factors * scale, sum);
  sum = fma_floats(offsets, all_floats(code_sum), sum);
}

// The same for T tokens, whose products are yet to be made.
template <class Products, class Panel, int T>
[[gnu::always_inline]] inline void add_group(const Words* codes, Floats factors, Floats offsets,
                                             const Int16Row* x, int64_t group, Floats (&sums)[T]) {
  constexpr int kAtOnce = std::min(T, Products::kTokensAtOnce);
#pragma GCC unroll 8
  for (int first = 0; first < T; first += kAtOnce) {
    Words products[kAtOnce];
    Products::template sum<Panel, kAtOnce>(codes, x + first, group * Panel::kGroup, products);
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      add_products<Panel>(products[i], factors, offsets, x[first + i], group, sums[first + i]);
    }
  }
}

// A group of a panel's columns, whose codes are yet to be unpacked.
template <class Panel>
struct StoredGroup {
  const Panel& panel;
  const Words (&words)[Panel::kStored];
  int of_part, of_step;
  int64_t number;  // in its row

  [[gnu::always_inline]] void codes(Words (&to)[Panel::kGroup / 4]) const {
    panel.codes(words, of_part, to);
  }
  [[gnu::always_inline]] Floats factors() const { return panel.factors(of_step); }
  [[gnu::always_inline]] Floats offsets() const { return panel.offsets(of_step); }
};

// f(StoredGroup) for the groups of the panel that begins with `row`, as they are stored. `ahead`:
// whether to ask for the next panel.
template <class Panel, class F>
[[gnu::always_inline]] inline void for_each_group(const StoredRows& w, int64_t row, bool ahead,
                                                  F f) {
  Panel panel(w, row);
  typename Panel::Ahead to_come(w, row, panel.n_steps * Panel::kParts);
  for (int64_t step = 0; step < panel.n_steps; ++step) {
    panel.load();
#pragma GCC unroll 4
    for (int part = 0; part < Panel::kParts; ++part) {
      if (ahead) to_come.ask();
      Words words[Panel::kStored];
      panel.stored(part, words);
#pragma GCC unroll 4
      for (int i = 0; i < Panel::kPartGroups; ++i) {
        const int of_step = Panel::group_of(part, i);
        f(StoredGroup<Panel>{panel, words, i, of_step, step * Panel::kStepGroups + of_step});
      }
    }
    panel.advance();
  }
}

// y[t, r] of the panel's rows r in `stored`, for T tokens.
template <class Products, class Panel, int T>
void multiply_panel(const StoredRows& w, int64_t row, bool ahead, const Int16Row* x, float scale,
                    Range stored, float* y, int64_t y_stride) {
  Floats sums[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) sums[t] = all_floats(0.0F);
  const auto add = [&](const StoredGroup<Panel>& group) __attribute__((always_inline)) {
    Words codes[Panel::kGroup / 4];
    group.codes(codes);
    add_group<Products, Panel, T>(codes, group.factors(), group.offsets(), x, group.number, sums);
  };
  for_each_group<Panel>(w, row, ahead, add);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    store_rows(y + t * y_stride, stored.begin, stored.size(), sums[t] * all_floats(scale));
  }
}

// multiply(row, stored) for the panels that hold `rows`: from `row` on, of which those in `stored`
// are asked for. The sums of others go nowhere; so the last panel may reach back.
template <class F>
[[gnu::always_inline]] inline void for_each_panel(int64_t n_rows, Range rows, F multiply) {
  const int64_t first = rows.begin / kPanelRows * kPanelRows;
  for (int64_t begin = first; begin < rows.end; begin += kPanelRows) {
    const int64_t row = std::min(begin, n_rows - kPanelRows);
    multiply(row, Range{std::max(begin, rows.begin) - row,
                        std::min(begin + kPanelRows, rows.end) - row});
  }
}

// Eight tokens at a time, then four, two, one: what a token gets does not depend on the others.
template <class Products>
struct LaneProduct {
  template <class Panel>
  static void multiply_rows(const StoredRows& w, int64_t n_rows, Range rows, const Int16Row* x,
                            int64_t n_tokens, float scale, float* y, int64_t y_stride) {
    for_each_panel(n_rows, rows, [&](int64_t row, Range stored) {
      const auto multiply = [&]<int T>(int64_t t) {
        multiply_panel<Products, Panel, T>(w, row, /*ahead=*/t == 0, x + t, scale, stored,
                                           y + row + t * y_stride, y_stride);
      };
      int64_t t = 0;
      for (; t + 8 <= n_tokens; t += 8) multiply.template operator()<8>(t);
      for (; t + 4 <= n_tokens; t += 4) multiply.template operator()<4>(t);
      for (; t + 2 <= n_tokens; t += 2) multiply.template operator()<2>(t);
      for (; t < n_tokens; ++t) multiply.template operator()<1>(t);
    });
  }
};

// Product::multiply_rows<Panel> for every format and layout.
template <class Product>
constexpr IntegerKernels make_integer_kernels() {
  IntegerKernels kernels;
  const auto set = [&]<class Rows, class Interleaved>(Format format) {
    const auto at = static_cast<size_t>(format);
    kernels.multiply_rows[at] = Product::template multiply_rows<Rows>;
    kernels.multiply_interleaved[at] = Product::template multiply_rows<Interleaved>;
  };
  const auto set_blocks = [&]<Format format, template <class> class Panel>() {
    set.template operator()<Panel<RowBlocks<format>>, Panel<InterleavedBlocks<format>>>(format);
  };
  set_blocks.template operator()<Format::kQ4_0, Q4_0Panel>();
  set_blocks.template operator()<Format::kQ4_1, Q4_1Panel>();
  set_blocks.template operator()<Format::kQ8_0, Q8_0Panel>();
  set_blocks.template operator()<Format::kQ4_K, Q4_KPanel>();
  set_blocks.template operator()<Format::kQ6_K, Q6_KPanel>();
  set_blocks.template operator()<Format::kMxfp4Block, Mxfp4BlockPanel>();
  set_blocks.template operator()<Format::kNvfp4Block, Nvfp4BlockPanel>();
  set.template operator()<SplitFp4Rows<32>, SplitFp4Interleaved<Format::kMxfp4>>(Format::kMxfp4);
  set.template operator()<SplitFp4Rows<16>, SplitFp4Interleaved<Format::kNvfp4>>(Format::kNvfp4);
  return kernels;
}

}  // namespace
}  // namespace penstock
