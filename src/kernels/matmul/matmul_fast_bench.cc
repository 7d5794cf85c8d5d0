// The fast product of one matrix by format, on one thread, with the activations made ready within
// the time. Rates are of CPU time: stored weights read per second, 2 operations per weight and
// token.
//
// fast_decode_cached: 1 token, 576 x 1536, weights from the second or third cache level.
//
// fast_decode_memory: 1 token, more than 1 GiB of weights, each byte from memory.
//
// fast_batch_8: 8 tokens, 576 x 1536.
//
// fast_prefill_N: N tokens of a prompt, 1536 x 2048.
#include <benchmark/benchmark.h>

#include <cmath>

#include "base/aligned.h"
#include "base/check.h"
#include "kernels/matmul/matmul_fast.h"
#include "kernels/matmul/random_matrix.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A wrong answer is not timed: the first rows are compared with the reference, as near as numbers
// of this kind come (the tests have derived bounds).
void check_answer(const MatrixView& w, const FastActivations& x, Rows<const float> y) {
  const Range rows = {0, std::min<int64_t>(w.rows, 9)};
  std::vector<float> expected(static_cast<size_t>(y.n_rows * w.rows));
  const auto to = dense_rows(expected.data(), y.n_rows, w.rows);
  if (x.decode_rows().n_rows > 0) {
    matmul_int8_ref(w, rows, x.int8(), to);
  } else {
    matmul_bf16_ref(w, rows, x.prefill_rows(), to);
  }
  for (int64_t t = 0; t < y.n_rows; ++t) {
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      PENSTOCK_CHECK(std::abs(y.row(t)[n] - to.row(t)[n]) < 1e-2F * (1.0F + std::abs(to.row(t)[n])),
                     "a wrong answer is not timed");
    }
  }
}

struct Case {
  Isa isa = Isa::kScalar;
  Format format = Format::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t n_decode = 0;
  int64_t n_prefill = 0;
};

void run(benchmark::State& state, const Case& each) {
  const int64_t n_tokens = each.n_decode + each.n_prefill;
  const RandomMatrix matrix(each.format, each.rows, each.cols, Numbers::kModest, 1,
                            ScaleFormat::kF32, 128);
  const MatrixView& w = matrix.view();
  const AlignedVector<float> tokens = random_floats<AlignedVector<float>>(n_tokens * each.cols, 1);
  AlignedVector<float> results(static_cast<size_t>(n_tokens * each.rows));
  const Rows<float> y = dense_rows(results.data(), n_tokens, each.rows);
  FastActivations x;
  const auto multiply = [&] {
    x.begin(each.isa, {tokens.data(), n_tokens, each.cols, each.cols}, each.n_decode,
            has_int8_kernel(each.isa, each.format));
    x.prepare({0, x.n_parts()});
    matmul_fast(each.isa, w, {0, each.rows}, x, y);
  };
  multiply();
  check_answer(w, x, y);

  for (auto _ : state) {
    multiply();
    benchmark::ClobberMemory();
  }

  const auto per_second = [](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["weight_bytes/s"] =
      per_second(static_cast<double>(w.data.size() + w.scales.size()));
  state.counters["flop/s"] =
      per_second(2.0 * static_cast<double>(each.rows * each.cols * n_tokens));
}

void add(std::string_view what, const Case& each) {
  const std::string name = std::string(what) + '/' + std::string(info(each.format).name) + '/' +
                           std::string(to_string(each.isa));
  benchmark::RegisterBenchmark(name.c_str(), run, each)->Unit(benchmark::kMicrosecond);
}

const bool kRegistered = [] {
  const Isa isa = supported_isas().back();
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    if (has_int8_kernel(isa, format)) {
      add("fast_decode_cached", {isa, format, 576, 1536, 1, 0});
      add("fast_batch_8", {isa, format, 576, 1536, 8, 0});
      const auto bytes_of_8_rows = static_cast<int64_t>(*data_bytes(format, 8, 4096));
      add("fast_decode_memory", {isa, format, (kGiB / bytes_of_8_rows + 1) * 8, 4096, 1, 0});
    }
    if (isa != Isa::kAmx) continue;  // without tiles the prompt's product is the exact one
    for (const int64_t n : {32, 512}) {
      add("fast_prefill_" + std::to_string(n), {isa, format, 1536, 2048, 0, n});
    }
  }
  return true;
}();

}  // namespace
}  // namespace penstock
