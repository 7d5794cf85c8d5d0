// Attention of one layer in Qwen3-30B-A3B's shape (32 heads that share 4 of keys and values, 128
// numbers each): prefill of 512 tokens, near and far from the start, and decode of one token over
// 4,096 and 16,384 positions; the name says how many positions the last token sees. Decode goes
// round the layers that fit the ring. The class `exact` has float32 pages, `fast` bf16.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

#include "base/check.h"
#include "cpu/precision.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_fast.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

constexpr AttentionShape kShape = {
    .n_heads = 32, .n_kv_heads = 4, .head_dim = 128, .scale = 0x1.6a09e6p-4F};
constexpr int64_t kCols = int64_t{kShape.n_heads} * kShape.head_dim;
constexpr int64_t kTokensPerTask = 32;  // as model/blocks/attention_block.cc shares work

struct Call {
  Isa isa = Isa::kScalar;
  int64_t first_position = 0;
  int64_t n_tokens = 0;

  int64_t n_positions() const { return first_position + n_tokens; }
  BenchMemory memory() const {
    return n_tokens == 1 ? BenchMemory::kHugePages : BenchMemory::kCache;
  }
};

// The pages of some layers of one sequence; all layers hold the same numbers.
template <class T>
class Layers {
 public:
  Layers(const Call& call, BenchArena& arena) : n_pages_(size(pages_for(call.n_positions()))) {
    const size_t layer = n_pages_ * 2 * kPage;
    const size_t n_layers = call.memory() == BenchMemory::kCache
                                ? 1
                                : std::max<size_t>(1, arena.ring_bytes() / (layer * sizeof(T)));
    T* const store =
        reinterpret_cast<T*>(arena.take(call.memory(), n_layers * layer * sizeof(T)).data());
    for (size_t i = 0; i < n_layers * n_pages_; ++i) {
      keys_.push_back(store + i * 2 * kPage);
      values_.push_back(keys_.back() + kPage);
    }
    write(store, call.n_positions());
    for (size_t i = 1; i < n_layers; ++i) std::copy_n(store, layer, store + i * layer);
  }

  size_t n_layers() const { return keys_.size() / n_pages_; }
  auto kv(size_t layer) const {
    const auto keys = std::span(keys_).subspan(layer * n_pages_, n_pages_);
    const auto values = std::span(values_).subspan(layer * n_pages_, n_pages_);
    if constexpr (std::same_as<T, float>) {
      return PagedKv{keys, values};
    } else {
      return PagedKvBf16{keys, values};
    }
  }

 private:
  static constexpr size_t size(int64_t n) { return static_cast<size_t>(n); }
  static constexpr size_t kRow = size_t{kShape.n_kv_heads} * kShape.head_dim;
  static constexpr size_t kPage = kRow * kPageTokens;

  // Every token's numbers begin at another place of one row of random ones.
  static void write(T* store, int64_t n_positions) {
    constexpr int64_t kPlaces = 16'396;
    const auto numbers = random_floats(static_cast<int64_t>(kRow) + kPlaces, 2);
    const auto at = [&](int64_t seed) {
      return std::span(numbers).subspan(size(seed % kPlaces), kRow);
    };
    for (int64_t j = 0; j < n_positions; ++j) {
      T* const keys = store + size(j / kPageTokens) * 2 * kPage;
      write_token(j % kPageTokens, at(j * 17), at(j * 31 + 5), keys, keys + kPage);
    }
  }
  static void write_token(int64_t slot, std::span<const float> k, std::span<const float> v,
                          uint16_t* keys, uint16_t* values) {
    write_kv_bf16(kShape, slot, k, v, keys, values);
  }
  static void write_token(int64_t slot, std::span<const float> k, std::span<const float> v,
                          float* keys, float* values) {
    constexpr size_t kDim = kShape.head_dim;
    for (size_t head = 0; head < kShape.n_kv_heads; ++head) {
      const size_t to = (head * kPageTokens + size(slot)) * kDim;
      std::copy_n(&k[head * kDim], kDim, keys + to);
      std::copy_n(&v[head * kDim], kDim, values + to);
    }
  }

  size_t n_pages_;  // of a layer
  std::vector<const T*> keys_, values_;
};

template <class T>
class AttentionRun {
 public:
  AttentionRun(const Call& call, BenchArena& arena, int n_workers)
      : call_(call),
        layers_(call, arena),
        q_(random_floats(call.n_tokens * kCols, 1)),
        y_(q_.size()),
        scratch_(static_cast<size_t>(n_workers), std::vector<float>(scratch_floats())) {
    for (int64_t end = call.n_tokens; end > 0; end -= kTokensPerTask) {
      for (int head = 0; head < kShape.n_kv_heads; ++head) {
        tasks_.push_back({{std::max<int64_t>(0, end - kTokensPerTask), end}, head});
      }
    }
  }

  void run(Pool& pool) {
    constexpr int kGroup = kShape.n_heads / kShape.n_kv_heads;
    const auto kv = layers_.kv(layer_);
    pool.parallel_for_shares(static_cast<int64_t>(tasks_.size()), 1, [&](Range range, int worker) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        const auto& [tokens, kv_head] = tasks_[static_cast<size_t>(i)];
        attend({int64_t{kv_head} * kGroup, int64_t{kv_head + 1} * kGroup}, tokens, kv,
               scratch_[static_cast<size_t>(worker)]);
      }
    });
    layer_ = (layer_ + 1) % layers_.n_layers();
  }

  // The first and the last token against the reference: rows do not depend on their neighbours. In
  // `fast` both round each weight to bf16 (2^-8), maybe in different directions, and values are
  // below 6.
  void check(Pool& pool) {
    run(pool);
    constexpr float kBound = std::same_as<T, float> ? 0.0F : 6 * 2 * 0x1p-8F;
    std::vector<float> expected(static_cast<size_t>(kCols));
    for (const int64_t t : {int64_t{0}, call_.n_tokens - 1}) {
      const Rows<float> to = {expected.data(), 1, kCols, kCols};
      reference(token_rows(q_, {t, t + 1}), call_.first_position + t, layers_.kv(0), to);
      for (int64_t i = 0; i < kCols; ++i) {
        PENSTOCK_CHECK(std::abs(y_[static_cast<size_t>(t * kCols + i)] - to.data[i]) <= kBound,
                       "a wrong answer is not timed");
      }
    }
  }

 private:
  struct Task {
    Range tokens;
    int kv_head;
  };

  size_t scratch_floats() const {
    if constexpr (std::same_as<T, float>) {
      return attention_scratch_floats(kShape, call_.n_tokens, call_.n_positions());
    }
    return attention_fast_scratch_floats(kShape, call_.n_tokens);
  }

  static Rows<float> token_rows(std::vector<float>& all, Range tokens) {
    return dense_rows(all.data() + tokens.begin * kCols, tokens.size(), kCols);
  }

  template <class Kv>
  void attend(Range heads, Range tokens, const Kv& kv, std::span<float> scratch) {
    const auto q = token_rows(q_, tokens), y = token_rows(y_, tokens);
    const int64_t position = call_.first_position + tokens.begin;
    if constexpr (std::same_as<T, float>) {
      attention_exact(call_.isa, kShape, heads, q, position, kv, /*sinks=*/{}, scratch, y);
    } else {
      attention_fast(call_.isa, kShape, heads, q, position, kv, /*sinks=*/{}, scratch, y);
    }
  }

  static void reference(Rows<const float> q, int64_t position, const PagedKv& kv, Rows<float> y) {
    attention_exact_ref(kShape, {0, kShape.n_heads}, q, position, kv, /*sinks=*/{}, y);
  }
  static void reference(Rows<const float> q, int64_t position, const PagedKvBf16& kv,
                        Rows<float> y) {
    attention_fast_ref(kShape, {0, kShape.n_heads}, q, position, kv, /*sinks=*/{}, y);
  }

  Call call_;
  Layers<T> layers_;
  std::vector<float> q_, y_;
  std::vector<std::vector<float>> scratch_;  // of each worker
  std::vector<Task> tasks_;
  size_t layer_ = 0;
};

// Each visible key and value is read once, and takes 4 operations a head and number of it: two for
// the score, two for the sum.
template <class T>
BenchWork work_of(const Call& call) {
  const auto tokens = static_cast<double>(call.n_tokens);
  const double n_visible =
      tokens * static_cast<double>(call.first_position) + tokens * (tokens + 1) / 2;
  const double kv_numbers =
      2.0 * static_cast<double>(call.n_positions()) * kShape.n_kv_heads * kShape.head_dim;
  const bool tiles = !std::same_as<T, float> && call.isa == Isa::kAmx;
  return {.bytes = kv_numbers * sizeof(T) + 2 * tokens * kCols * sizeof(float),
          .operations = 4 * n_visible * kShape.n_heads * kShape.head_dim,
          .arithmetic = tiles ? Arithmetic::kBf16Tiles : Arithmetic::kFloat32};
}

template <class T>
KernelBench attention_bench(const Call& call) {
  const bool exact = std::same_as<T, float>;
  return {.operation = fmt::format("attention {} {}",
                                   to_string(exact ? Precision::kExact : Precision::kFast),
                                   call.n_positions()),
          .format = exact ? "f32" : "bf16",
          .memory = call.memory(),
          .isa = call.isa,
          .n_tokens = call.n_tokens,
          .work = work_of<T>(call),
          .prepare = [call](BenchArena& arena, Pool& pool) -> BenchRun {
            return checked_run<AttentionRun<T>>(pool, call, arena, pool.n_workers());
          }};
}

}  // namespace

void add_attention_benches(Isa isa, std::vector<KernelBench>& to) {
  const Call calls[] = {{isa, 4095, 1}, {isa, 16383, 1}, {isa, 0, 512}, {isa, 7680, 512}};
  for (const Call& call : calls) to.push_back(attention_bench<float>(call));
  for (const Call& call : calls) to.push_back(attention_bench<uint16_t>(call));
}

}  // namespace penstock
