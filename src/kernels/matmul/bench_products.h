// Products of stored matrices with a step's tokens, as a layer of a model makes them: what the
// benchmarks of matmul and of routed experts run.
#pragma once

#include <vector>

#include "cpu/precision.h"
#include "kernels/bench/kernel_bench.h"
#include "tensor/format.h"

namespace penstock {

// One run multiplies tokens_of.size() matrices of the same shape, as one parallel region.
struct BenchProducts {
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kExact;
  Format format = Format::kF32;
  Layout layout = Layout::kRows;
  BenchMemory memory = BenchMemory::kCache;
  int64_t rows = 0, cols = 0;
  std::vector<int64_t> tokens_of = {};  // each matrix's
  bool share_input = false;             // all matrices multiply the same tokens
  bool generated = false;  // tokens that were generated, or a prompt's: as `fast` tells
};

// The classes and layouts that a model's matrices are multiplied in.
struct ProductKind {
  Precision precision = Precision::kExact;
  Layout layout = Layout::kRows;
};
std::vector<ProductKind> product_kinds();
// Whether the format has the layout, and `fast` a product of its own; otherwise that is the exact
// one.
bool can_run(const BenchProducts& products);

// `n_tokens` is what the report says. An interleaved format's name ends in "x16".
KernelBench products_bench(std::string_view operation, int64_t n_tokens,
                           const BenchProducts& products);

// The formats that models come in most (docs/design.md section 6).
std::vector<Format> native_formats();

}  // namespace penstock
