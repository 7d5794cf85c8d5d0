// Attention of one layer by isa: prefill of 512 tokens, and one token over 4096 positions. The
// counters are what the arithmetic needs at least: 4 head_dim floating-point operations a head and
// visible key, and each visible key and value read once.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

struct Layer {
  Layer(int64_t first_position_, int64_t n_tokens_)
      : first_position(first_position_),
        n_tokens(n_tokens_),
        q(random_floats(n_tokens * shape.n_heads * shape.head_dim, 1)),
        y(q.size()),
        scratch(attention_scratch_floats(shape, n_tokens, n_positions())) {
    const int64_t page = shape.n_kv_heads * kPageTokens * shape.head_dim;
    const int64_t n_pages = pages_for(n_positions());
    store = random_floats(2 * n_pages * page, 2);
    for (int64_t p = 0; p < n_pages; ++p) {
      keys.push_back(store.data() + 2 * p * page);
      values.push_back(store.data() + (2 * p + 1) * page);
    }
  }

  int64_t n_positions() const { return first_position + n_tokens; }
  Rows<float> rows(std::vector<float>& v) const {
    return dense_rows(v.data(), n_tokens, int64_t{shape.n_heads} * shape.head_dim);
  }
  void attend(Isa isa) {
    attention_exact(isa, shape, {0, shape.n_heads}, rows(q), first_position, {keys, values}, {},
                    scratch, rows(y));
  }

  AttentionShape shape = {32, 8, 128, 1.0F / std::sqrt(128.0F), 0};
  int64_t first_position;
  int64_t n_tokens;
  std::vector<float> q, y, scratch, store;
  std::vector<const float*> keys, values;
};

void run(benchmark::State& state, Isa isa, int64_t first_position, int64_t n_tokens) {
  Layer layer(first_position, n_tokens);
  layer.attend(Isa::kScalar);
  const std::vector<float> expected = layer.y;
  layer.attend(isa);
  PENSTOCK_CHECK(layer.y == expected, "a wrong answer is not timed");

  for (auto _ : state) layer.attend(isa);

  double n_visible = 0;
  for (int64_t t = 0; t < n_tokens; ++t) n_visible += static_cast<double>(first_position + t + 1);
  const AttentionShape& shape = layer.shape;
  const auto per_second = [&](double each) {
    return benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["flop/s"] = per_second(4.0 * shape.head_dim * shape.n_heads * n_visible);
  state.counters["kv_bytes/s"] = per_second(8.0 * shape.head_dim * shape.n_kv_heads *
                                            static_cast<double>(layer.n_positions()));
}

const bool kRegistered = [] {
  for (const Isa isa : supported_isas()) {
    const std::string name = std::string(to_string(isa));
    benchmark::RegisterBenchmark(("attention_prefill_512/" + name).c_str(), run, isa, 0, 512)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("attention_decode_4096/" + name).c_str(), run, isa, 4095, 1)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace penstock
