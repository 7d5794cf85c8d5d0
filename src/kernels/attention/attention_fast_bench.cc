// Attention of the class `fast` by isa, on one core: prefill of 512 tokens near and far from the
// start, and decode of one token over 4096 and 16384 positions. Counters: 4 head_dim floating-point
// operations a head and visible key, and each visible key and value read once. Decode goes round
// layers of kColdBytes together, more than the caches hold, as it does in a model; kv_read only
// reads the same pages, and is what decode can hope for.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention_fast.h"
#include "kernels/random_floats.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr size_t kColdBytes = size_t{1} << 30;

AnonymousMemory reserve(size_t bytes) {
  auto memory = AnonymousMemory::reserve(bytes, OsPages::kHuge);
  PENSTOCK_CHECK(memory, "memory for the pages");
  return *std::move(memory);
}

// The pages of some layers of one sequence; all layers hold the same numbers.
class Layers {
 public:
  Layers(const AttentionShape& shape, int64_t n_positions, size_t n_layers)
      : page_(static_cast<size_t>(shape.n_kv_heads * kPageTokens * shape.head_dim)),
        n_pages_(static_cast<size_t>(pages_for(n_positions))),
        n_layers_(n_layers),
        memory_(reserve(n_layers * n_pages_ * page_ * 2 * sizeof(uint16_t))),
        store_(reinterpret_cast<uint16_t*>(memory_.bytes().data())) {
    const int64_t row = shape.n_kv_heads * shape.head_dim;
    const auto numbers = random_floats(row + 4 * 4099, 2);
    for (int64_t j = 0; j < n_positions; ++j) {
      const auto at = [&](int64_t seed) {
        return std::span(numbers).subspan(static_cast<size_t>(seed % (4 * 4099)),
                                          static_cast<size_t>(row));
      };
      uint16_t* const page = store_ + static_cast<size_t>(j / kPageTokens) * 2 * page_;
      write_kv_bf16(shape, j % kPageTokens, at(j * 17), at(j * 31 + 5), page, page + page_);
    }
    const size_t layer = n_pages_ * page_ * 2;
    for (size_t i = 1; i < n_layers; ++i) std::copy_n(store_, layer, store_ + i * layer);
    for (size_t i = 0; i < n_layers * n_pages_; ++i) {
      keys_.push_back(store_ + i * 2 * page_);
      values_.push_back(keys_.back() + page_);
    }
  }

  size_t n_layers() const { return n_layers_; }
  PagedKvBf16 kv(size_t layer) const {
    return {std::span(keys_).subspan(layer * n_pages_, n_pages_),
            std::span(values_).subspan(layer * n_pages_, n_pages_)};
  }
  std::span<const uint16_t> numbers(size_t layer) const {
    return {store_ + layer * n_pages_ * page_ * 2, n_pages_ * page_ * 2};
  }

 private:
  size_t page_, n_pages_, n_layers_;
  AnonymousMemory memory_;
  uint16_t* store_;
  std::vector<const uint16_t*> keys_, values_;
};

struct Call {
  AttentionShape shape;
  int64_t first_position = 0;
  int64_t n_tokens = 0;

  int64_t n_positions() const { return first_position + n_tokens; }
  size_t kv_bytes() const {
    return static_cast<size_t>(n_positions() * shape.n_kv_heads * shape.head_dim) * 2 * 2;
  }
  size_t n_layers() const { return n_tokens > 1 ? 1 : kColdBytes / kv_bytes() + 1; }
  double flops() const {
    double n_visible = 0;
    for (int64_t t = 0; t < n_tokens; ++t) {
      n_visible += static_cast<double>(first_position + t + 1);
    }
    return 4.0 * shape.head_dim * shape.n_heads * n_visible;
  }
};

class Attend {
 public:
  explicit Attend(const Call& call)
      : call_(call),
        q_(random_floats(call.n_tokens * call.shape.n_heads * call.shape.head_dim, 1)),
        y_(q_.size()),
        scratch_(attention_fast_scratch_floats(call.shape, call.n_tokens)) {}

  void run(Isa isa, const PagedKvBf16& kv) {
    attention_fast(isa, call_.shape, {0, call_.shape.n_heads}, rows(q_), call_.first_position, kv,
                   {}, scratch_, rows(y_));
  }

  // The first and the last token against the reference: rows do not depend on their neighbours.
  // Both round each weight to bf16 (2^-8), maybe in different directions, and values are below 6.
  void check(Isa isa, const PagedKvBf16& kv) {
    run(isa, kv);
    std::vector<float> expected(y_.size());
    for (const int64_t t : {int64_t{0}, call_.n_tokens - 1}) {
      const auto one = [&](std::vector<float>& all) {
        return Rows<float>{rows(all).row(t), 1, rows(all).cols, rows(all).stride};
      };
      attention_fast_ref(call_.shape, {0, call_.shape.n_heads}, one(q_), call_.first_position + t,
                         kv, {}, one(expected));
      for (int64_t i = 0; i < rows(y_).cols; ++i) {
        PENSTOCK_CHECK(std::abs(rows(y_).row(t)[i] - rows(expected).row(t)[i]) < 6 * 2 * 0x1p-8F,
                       "a wrong answer is not timed");
      }
    }
  }

 private:
  Rows<float> rows(std::vector<float>& v) const {
    return dense_rows(v.data(), call_.n_tokens,
                      int64_t{call_.shape.n_heads} * call_.shape.head_dim);
  }

  Call call_;
  std::vector<float> q_, y_, scratch_;
};

void count(benchmark::State& state, const Call& call) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["flop/s"] = benchmark::Counter(call.flops(), rate);
  state.counters["kv_bytes/s"] = benchmark::Counter(static_cast<double>(call.kv_bytes()), rate);
}

void attend(benchmark::State& state, Isa isa, const Call& call) {
  const Layers layers(call.shape, call.n_positions(), call.n_layers());
  Attend work(call);
  work.check(isa, layers.kv(0));
  size_t layer = 0;
  for (auto _ : state) {
    work.run(isa, layers.kv(layer));
    layer = (layer + 1) % layers.n_layers();
  }
  count(state, call);
}

// One word of each cache line, so that as many lines as can be are on their way at once.
void read_pages(benchmark::State& state, const Call& call) {
  const Layers layers(call.shape, call.n_positions(), call.n_layers());
  size_t layer = 0;
  for (auto _ : state) {
    constexpr size_t kLine = 64 / sizeof(uint16_t);
    const auto numbers = layers.numbers(layer);
    unsigned sum = 0;
    for (size_t i = 0; i < numbers.size(); i += kLine) sum += numbers[i];
    benchmark::DoNotOptimize(sum);
    layer = (layer + 1) % layers.n_layers();
  }
  state.counters["kv_bytes/s"] =
      benchmark::Counter(static_cast<double>(layers.numbers(0).size_bytes()),
                         benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  for (const AttentionShape& shape :
       {AttentionShape{9, 3, 64, 0.125F, 0}, AttentionShape{32, 4, 128, 0x1.6a09e6p-4F, 0}}) {
    const auto name = [&](std::string_view what) {
      return fmt::format("attention_fast/{}x{}x{}/{}", shape.n_heads, shape.n_kv_heads,
                         shape.head_dim, what);
    };
    for (const int64_t position : {4095, 16383}) {
      benchmark::RegisterBenchmark(name(fmt::format("kv_read_{}", position + 1)).c_str(),
                                   read_pages, Call{shape, position, 1})
          ->Unit(benchmark::kMillisecond);
    }
    for (const Isa isa : supported_isas()) {
      if (isa == Isa::kScalar) continue;  // the reference, made to be read
      for (const int64_t position : {0, 7680}) {
        benchmark::RegisterBenchmark(
            name(fmt::format("prefill_512_at_{}/{}", position, to_string(isa))).c_str(), attend,
            isa, Call{shape, position, 512})
            ->Unit(benchmark::kMillisecond);
      }
      for (const int64_t position : {4095, 16383}) {
        benchmark::RegisterBenchmark(
            name(fmt::format("decode_{}/{}", position + 1, to_string(isa))).c_str(), attend, isa,
            Call{shape, position, 1})
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace penstock
