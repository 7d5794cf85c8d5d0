// The exact product of one matrix by format and isa, on one thread; columns are rounded up to whole
// groups. Rates are of CPU time: stored weights read per second, 2 operations per weight and token.
//
// matmul_decode_cached: 1 token, 576 x 1536, weights from the second or third cache level.
//
// matmul_decode_memory: 1 token, more than 1 GiB of weights, each byte from memory.
//
// matmul_batch_N: N tokens, 576 x 1536.
//
// matmul_prefill: 512 tokens, 1536 x 576; matmul_prefill_long: 1536 x 4096.
#include <benchmark/benchmark.h>

#include "base/aligned.h"
#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/random_matrix.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A wrong answer is not timed: the first rows of the first tokens are compared with the reference.
void check_answer(Isa isa, const MatrixView& w, Rows<const float> x) {
  const Range rows = {0, std::min<int64_t>(w.rows, 9)};
  x.n_rows = std::min<int64_t>(x.n_rows, 7);
  std::vector<float> found(static_cast<size_t>(x.n_rows * w.rows));
  std::vector<float> expected(found.size());
  matmul_exact(isa, w, rows, x, dense_rows(found.data(), x.n_rows, w.rows));
  matmul_exact_ref(w, rows, x, dense_rows(expected.data(), x.n_rows, w.rows));
  PENSTOCK_CHECK(found == expected, "a wrong answer is not timed");
}

void run(benchmark::State& state, Isa isa, Format format, int64_t rows, int64_t cols,
         int64_t n_tokens) {
  const RandomMatrix matrix(format, rows, cols, Numbers::kModest, 1, ScaleFormat::kF32, 128);
  const MatrixView& w = matrix.view();
  const AlignedVector<float> tokens = random_floats<AlignedVector<float>>(n_tokens * cols, 1);
  const Rows<const float> x = {tokens.data(), n_tokens, cols, cols};
  AlignedVector<float> results(static_cast<size_t>(n_tokens * rows));
  const Rows<float> y = dense_rows(results.data(), n_tokens, rows);
  check_answer(isa, w, x);

  for (auto _ : state) {
    matmul_exact(isa, w, {0, rows}, x, y);
    benchmark::ClobberMemory();
  }

  const auto per_second = [](double each) {
    return benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["weight_bytes/s"] =
      per_second(static_cast<double>(w.data.size() + w.scales.size()));
  state.counters["flop/s"] = per_second(2.0 * static_cast<double>(rows * cols * n_tokens));
}

// `cols` is rounded up to whole groups.
void add(const char* what, Format format, Isa isa, int64_t rows, int64_t cols, int64_t n_tokens) {
  const int64_t group = info(format).group;
  cols = (cols + group - 1) / group * group;
  const std::string name =
      std::string(what) + '/' + std::string(info(format).name) + '/' + std::string(to_string(isa));
  benchmark::RegisterBenchmark(name.c_str(), run, isa, format, rows, cols, n_tokens)
      ->Unit(benchmark::kMicrosecond);
}

const bool kRegistered = [] {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    for (const Isa isa : supported_isas()) {
      add("matmul_decode_cached", format, isa, 576, 1536, 1);
      for (const int64_t n : {2, 4, 8}) {
        add(("matmul_batch_" + std::to_string(n)).c_str(), format, isa, 576, 1536, n);
      }
      add("matmul_prefill", format, isa, 1536, 576, 512);
      add("matmul_prefill_long", format, isa, 1536, 4096, 512);
      if (isa == Isa::kScalar) continue;
      const int64_t bytes_of_8_rows = static_cast<int64_t>(*data_bytes(format, 8, 4096));
      add("matmul_decode_memory", format, isa, (kGiB / bytes_of_8_rows + 1) * 8, 4096, 1);
    }
  }
  return true;
}();

}  // namespace
}  // namespace penstock
