#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "checkpoint/model_spec.h"
#include "cuda/fake_driver.h"
#include "kernels/attention/attention_gpu.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/rope/rope.h"

namespace penstock {
namespace {

// A layer's keys and values in pages.
class Pages {
 public:
  Pages(const GpuAttentionShape& shape, std::span<const int32_t> pages, uint64_t page_numbers)
      : shape_(shape), pages_(pages), page_numbers_(page_numbers) {}

  // Where the numbers of a position's key (or value) of a head begin.
  size_t place(const GpuToken& of, int position, int kv_head, bool is_value) const {
    const auto page = static_cast<uint64_t>(
        pages_[static_cast<size_t>(of.first_page + position / kGpuPageTokens)]);
    const uint64_t layer = static_cast<uint64_t>(shape_.layer) * 2 + (is_value ? 1 : 0);
    const auto row = static_cast<uint64_t>(kv_head * kGpuPageTokens + position % kGpuPageTokens);
    return page * page_numbers_ + layer * shape_.layer_numbers() +
           row * static_cast<uint64_t>(shape_.head_dim);
  }

 private:
  GpuAttentionShape shape_;
  std::span<const int32_t> pages_;
  uint64_t page_numbers_;
};

void norm(std::span<float> head, std::span<const float> weight, float eps) {
  if (weight.empty()) return;
  double sum = 0;
  for (const float value : head) sum += static_cast<double>(value) * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(head.size()) + eps);
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] = static_cast<float>(head[i] * factor * weight[i]);
  }
}

// What goes into a step's attention, as the product left it.
struct Input {
  std::span<float> q;
  std::span<const float> k, v, q_norm, k_norm, angles;
};

// Of arguments `first` to `first` + 5.
Input input_at(const FakeKernelCall& call, size_t first) {
  return {call.span<float>(first),           call.span<const float>(first + 1),
          call.span<const float>(first + 2), call.span<const float>(first + 3),
          call.span<const float>(first + 4), call.span<const float>(first + 5)};
}

void store(const GpuAttentionShape& s, const Input& in, std::span<const GpuToken> tokens,
           const Pages& pages, std::span<uint16_t> kv, size_t n_tokens) {
  const auto dim = static_cast<size_t>(s.head_dim);
  const auto half = static_cast<size_t>(s.half);
  const RopePairs pairs = s.interleaved != 0 ? RopePairs::kInterleaved : RopePairs::kHalves;
  for (size_t t = 0; t < n_tokens; ++t) {
    const auto cos = in.angles.subspan(t * 2 * half, half);
    const auto sin = in.angles.subspan(t * 2 * half + half, half);
    const auto turn = [&](std::span<float> head, std::span<const float> weight) {
      norm(head, weight, s.eps);
      rope_rotate(pairs, cos, sin, dense_rows(head.data(), 1, s.head_dim));
    };
    for (int h = 0; h < s.n_heads; ++h) {
      turn(in.q.subspan(t * static_cast<size_t>(s.q_stride) + static_cast<size_t>(h) * dim, dim),
           in.q_norm);
    }
    for (int h = 0; h < s.n_kv_heads; ++h) {
      const size_t from = t * static_cast<size_t>(s.kv_stride) + static_cast<size_t>(h) * dim;
      std::vector<float> key(in.k.begin() + static_cast<ptrdiff_t>(from),
                             in.k.begin() + static_cast<ptrdiff_t>(from + dim));
      turn(key, in.k_norm);
      const size_t to_key = pages.place(tokens[t], tokens[t].position, h, /*is_value=*/false);
      const size_t to_value = pages.place(tokens[t], tokens[t].position, h, /*is_value=*/true);
      for (size_t i = 0; i < dim; ++i) {
        kv[to_key + i] = f32_to_bf16(key[i]);
        kv[to_value + i] = f32_to_bf16(in.v[from + i]);
      }
    }
  }
}

// Where the splits go, or are.
template <class Float>
struct Splits {
  std::span<Float> part, stats;
  int n;
};

void split(const GpuAttentionShape& s, std::span<const float> q, std::span<const GpuToken> tokens,
           const Pages& pages, std::span<const uint16_t> kv, const Splits<float>& splits,
           size_t n_tokens) {
  const auto& [part, stats, n_splits] = splits;
  const auto dim = static_cast<size_t>(s.head_dim);
  for (size_t t = 0; t < n_tokens; ++t) {
    const GpuToken token = tokens[t];
    const int first_seen = s.window > 0 ? std::max(0, token.position - s.window + 1) : 0;
    for (int head = 0; head < s.n_heads; ++head) {
      const int kv_head = head / (s.n_heads / s.n_kv_heads);
      const size_t from = t * static_cast<size_t>(s.q_stride) + static_cast<size_t>(head) * dim;
      for (int i = 0; i < n_splits; ++i) {
        const int begin = std::max(i * kGpuSplitKeys, first_seen);
        const int end = std::min((i + 1) * kGpuSplitKeys, token.position + 1);
        if (begin >= end) continue;
        std::vector<double> scores;
        for (int position = begin; position < end; ++position) {
          const size_t key = pages.place(token, position, kv_head, /*is_value=*/false);
          double sum = 0;
          for (size_t d = 0; d < dim; ++d) {
            sum += static_cast<double>(bf16_to_f32(f32_to_bf16(q[from + d]))) *
                   bf16_to_f32(kv[key + d]);
          }
          scores.push_back(sum * s.scale);
        }
        const double highest = std::ranges::max(scores);
        std::vector<double> sums(dim, 0);
        double weight = 0;
        for (int position = begin; position < end; ++position) {
          const double p = std::exp(scores[static_cast<size_t>(position - begin)] - highest);
          weight += p;
          const size_t value = pages.place(token, position, kv_head, /*is_value=*/true);
          for (size_t d = 0; d < dim; ++d) sums[d] += p * bf16_to_f32(kv[value + d]);
        }
        const size_t at = (t * static_cast<size_t>(s.n_heads) + static_cast<size_t>(head)) *
                              static_cast<size_t>(n_splits) +
                          static_cast<size_t>(i);
        stats[2 * at] = static_cast<float>(highest);
        stats[2 * at + 1] = static_cast<float>(weight);
        for (size_t d = 0; d < dim; ++d) part[at * dim + d] = static_cast<float>(sums[d]);
      }
    }
  }
}

void combine(const GpuAttentionShape& s, std::span<const GpuToken> tokens,
             const Splits<const float>& splits, std::span<uint16_t> out, int64_t stride,
             size_t n_tokens) {
  const auto& [part, stats, n_splits] = splits;
  const auto dim = static_cast<size_t>(s.head_dim);
  for (size_t t = 0; t < n_tokens; ++t) {
    const int position = tokens[t].position;
    const int first_seen = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
    for (size_t head = 0; head < static_cast<size_t>(s.n_heads); ++head) {
      const size_t first =
          (t * static_cast<size_t>(s.n_heads) + head) * static_cast<size_t>(n_splits);
      const auto begin = first + static_cast<size_t>(first_seen / kGpuSplitKeys);
      const auto end = first + static_cast<size_t>(position / kGpuSplitKeys) + 1;
      float highest = stats[2 * begin];
      for (size_t i = begin; i < end; ++i) highest = std::max(highest, stats[2 * i]);
      for (size_t d = 0; d < dim; ++d) {
        double sum = 0, weight = 0;
        for (size_t i = begin; i < end; ++i) {
          const double factor = std::exp(static_cast<double>(stats[2 * i]) - highest);
          weight += stats[2 * i + 1] * factor;
          sum += part[i * dim + d] * factor;
        }
        out[t * static_cast<size_t>(stride) + head * dim + d] =
            f32_to_bf16(static_cast<float>(sum / weight));
      }
    }
  }
}

void store_kernel(const FakeKernelCall& call) {
  const auto s = call.value<GpuAttentionShape>(0);
  store(s, input_at(call, 1), call.span<const GpuToken>(7),
        Pages(s, call.span<const int32_t>(8), call.value<uint64_t>(10)), call.span<uint16_t>(9),
        call.launch().grid.x);
}

void split_kernel(const FakeKernelCall& call) {
  const auto s = call.value<GpuAttentionShape>(0);
  split(s, call.span<const float>(1), call.span<const GpuToken>(2),
        Pages(s, call.span<const int32_t>(4), call.value<uint64_t>(6)),
        call.span<const uint16_t>(5),
        {call.span<float>(7), call.span<float>(8), call.value<int32_t>(9)},
        static_cast<size_t>(call.value<int32_t>(3)));
}

void combine_kernel(const FakeKernelCall& call) {
  combine(call.value<GpuAttentionShape>(0), call.span<const GpuToken>(1),
          {call.span<const float>(2), call.span<const float>(3), call.value<int32_t>(4)},
          call.span<uint16_t>(5), call.value<int64_t>(6), call.launch().grid.y);
}

void newest_kernel(const FakeKernelCall& call) {
  const auto s = call.value<GpuAttentionShape>(0);
  Input in = input_at(call, 1);
  // The kernel leaves queries as they are.
  std::vector<float> q(in.q.begin(), in.q.end());
  in.q = q;
  const auto tokens = call.span<const GpuToken>(7);
  const Pages pages(s, call.span<const int32_t>(8), call.value<uint64_t>(10));
  const auto kv = call.span<uint16_t>(9);
  const Splits<float> splits = {call.span<float>(11), call.span<float>(12),
                                call.value<int32_t>(13)};
  const size_t n_tokens = call.launch().grid.z;
  store(s, in, tokens, pages, kv, n_tokens);
  split(s, q, tokens, pages, kv, splits, n_tokens);
  if (call.span<int32_t>(14).empty()) return;
  combine(s, tokens, {splits.part, splits.stats, splits.n}, call.span<uint16_t>(15),
          call.value<int64_t>(16), n_tokens);
}

void copy_page(const FakeKernelCall& call) {
  const auto kv = call.span<uint16_t>(0);
  const auto numbers = static_cast<size_t>(call.value<uint64_t>(1));
  const auto from = static_cast<size_t>(call.value<int32_t>(2));
  const auto to = static_cast<size_t>(call.value<int32_t>(3));
  std::ranges::copy(kv.subspan(from * numbers, numbers),
                    kv.begin() + static_cast<ptrdiff_t>(to * numbers));
}

}  // namespace

void add_attention_stand_ins(FakeDriver& driver) {
  driver.add_kernel("attention_store", store_kernel);
  for (const char* name : {"attention_split", "attention_split_64", "attention_split_128"}) {
    driver.add_kernel(name, split_kernel);
  }
  for (const char* name : {"attention_newest_64", "attention_newest_128"}) {
    driver.add_kernel(name, newest_kernel);
  }
  driver.add_kernel("attention_combine", combine_kernel);
  driver.add_kernel("copy_page", copy_page);
}

}  // namespace penstock
