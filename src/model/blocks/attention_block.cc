#include "model/blocks/attention_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_fast.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"

namespace penstock {
namespace {

// Tokens of one sequence that share a pass over its keys and values.
constexpr int64_t kTokensPerTask = 32;

// Keys and values of one slice's pages, as the kernel of their format takes them.
template <class T>
struct PagePointers {
  std::vector<const T*> keys, values;
};

template <class T>
std::vector<PagePointers<T>> page_pointers(const StepTokens& step, const KvStore& kv, int layer) {
  std::vector<PagePointers<T>> all;
  for (const SequenceSlice& slice : step.slices()) {
    const int64_t end = slice.position + static_cast<int64_t>(slice.tokens.size());
    const auto n_pages = static_cast<size_t>(pages_for(end));
    PagePointers<T>& pages = all.emplace_back();
    for (const PageId page : slice.pages.first(n_pages)) {
      pages.keys.push_back(kv.keys<T>(layer, page));
      pages.values.push_back(kv.values<T>(layer, page));
    }
  }
  return all;
}

// Each slice's visible keys and values are read once, whatever its tokens; a score and a sum take
// two operations each a head's number.
OperationWork attention_work(const AttentionShape& shape, const StepTokens& step,
                             size_t number_bytes) {
  OperationWork work;
  for (const SequenceSlice& slice : step.slices()) {
    const auto n_tokens = static_cast<int64_t>(slice.tokens.size());
    int64_t n_pairs = 0;  // of a token and a key that it sees
    for (int64_t i = slice.position; i < slice.position + n_tokens; ++i) {
      n_pairs += shape.window > 0 ? std::min(i + 1, shape.window) : i + 1;
    }
    const int64_t end = slice.position + n_tokens;
    const int64_t n_keys = shape.window > 0 ? std::min(end, shape.window + n_tokens - 1) : end;
    work.bytes += 2.0 * static_cast<double>(number_bytes) * shape.n_kv_heads * shape.head_dim *
                  static_cast<double>(n_keys);
    work.operations += 4.0 * shape.n_heads * shape.head_dim * static_cast<double>(n_pairs);
  }
  return work;
}

}  // namespace

Result<AttentionBlock> AttentionBlock::load(const ModelSpec& spec, const AttentionPart& part,
                                            const WeightStore& weights, std::string_view prefix) {
  const auto name = [&](std::string_view tensor) { return fmt::format("{}{}", prefix, tensor); };
  AttentionBlock block;
  block.part_ = part;
  block.n_heads_ = spec.n_heads;
  block.n_kv_heads_ = spec.n_kv_heads;
  block.head_dim_ = spec.head_dim;
  block.rms_eps_ = static_cast<float>(spec.rms_eps);
  block.pairs_ = spec.rope.pairs;
  PENSTOCK_ASSIGN(block.wq_, weights.matrix(name("q")));
  PENSTOCK_ASSIGN(block.wk_, weights.matrix(name("k")));
  PENSTOCK_ASSIGN(block.wv_, weights.matrix(name("v")));
  PENSTOCK_ASSIGN(block.wo_, weights.matrix(name("o")));
  if (part.qkv_bias) {
    PENSTOCK_ASSIGN(block.q_bias_, weights.vector(name("q_bias"), block.wq_.rows));
    PENSTOCK_ASSIGN(block.k_bias_, weights.vector(name("k_bias"), block.wk_.rows));
    PENSTOCK_ASSIGN(block.v_bias_, weights.vector(name("v_bias"), block.wv_.rows));
  }
  if (part.o_bias) {
    PENSTOCK_ASSIGN(block.o_bias_, weights.vector(name("o_bias"), block.wo_.rows));
  }
  if (part.qk_norm) {
    PENSTOCK_ASSIGN(block.q_norm_, weights.vector(name("q_norm"), spec.head_dim));
    PENSTOCK_ASSIGN(block.k_norm_, weights.vector(name("k_norm"), spec.head_dim));
  }
  return block;
}

void AttentionBlock::forward(const Compute& compute, const StepTokens& step, const KvStore& kv,
                             int layer, Buffers& buffers, Rows<const float> h,
                             Rows<float> y) const {
  const Heads heads = project(compute, step, buffers, h);
  rotate_and_store(compute, step, kv, layer, heads);
  const auto heads_out = scratch_rows(buffers.heads_out, step.n_tokens(), wo_.cols);
  attend(compute, step, kv, layer, heads.q, buffers.of_workers, heads_out);
  const MatmulJob output = {&wo_, heads_out, y, step.n_generated()};
  const OperationTimer timer(compute.profile, Operation::kAttentionOutput,
                             [&] { return work_of({&output, 1}); });
  run_matmuls(compute, std::span(&output, 1));
  if (part_.o_bias) {
    for_each_row(compute, y.n_rows, y.cols * kPlainPass,
                 [&](Range range) { add_bias(o_bias_, y, range); });
  }
}

AttentionBlock::Heads AttentionBlock::project(const Compute& compute, const StepTokens& step,
                                              Buffers& buffers, Rows<const float> h) const {
  const Heads heads = {.q = scratch_rows(buffers.q, h.n_rows, wq_.rows),
                       .k = scratch_rows(buffers.k, h.n_rows, wk_.rows),
                       .v = scratch_rows(buffers.v, h.n_rows, wv_.rows)};
  const std::array jobs = {MatmulJob{&wq_, h, heads.q, step.n_generated()},
                           MatmulJob{&wk_, h, heads.k, step.n_generated()},
                           MatmulJob{&wv_, h, heads.v, step.n_generated()}};
  const OperationTimer timer(compute.profile, Operation::kQkv, [&] { return work_of(jobs); });
  run_matmuls(compute, jobs);
  return heads;
}

void AttentionBlock::rotate_and_store(const Compute& compute, const StepTokens& step,
                                      const KvStore& kv, int layer, const Heads& heads) const {
  const OperationTimer timer(compute.profile, Operation::kRope);
  const auto& [q, k, v] = heads;
  const int64_t n_numbers = q.cols + k.cols + v.cols;
  for_each_row(compute, step.n_tokens(), n_numbers * kRotation, [&](Range range) {
    add_bias(q_bias_, q, range);
    add_bias(k_bias_, k, range);
    add_bias(v_bias_, v, range);
    for (int64_t t = range.begin; t < range.end; ++t) {
      const auto q_heads = dense_rows(q.row(t), n_heads_, head_dim_);
      const auto k_heads = dense_rows(k.row(t), n_kv_heads_, head_dim_);
      if (part_.qk_norm) {
        rms_norm_exact(compute.isa, q_heads, q_norm_, rms_eps_, q_heads);
        rms_norm_exact(compute.isa, k_heads, k_norm_, rms_eps_, k_heads);
      }
      rope_rotate(pairs_, step.cos(t), step.sin(t), q_heads);
      rope_rotate(pairs_, step.cos(t), step.sin(t), k_heads);

      const int64_t position = step.position(t);
      const PageId page = step.slice_of(t).pages[static_cast<size_t>(position / kPageTokens)];
      store(kv, layer, page, position % kPageTokens, k.row(t), v.row(t));
    }
  });
}

void AttentionBlock::store(const KvStore& kv, int layer, PageId page, int64_t slot, const float* k,
                           const float* v) const {
  if (kv.shape().format == KvFormat::kBF16) {
    const auto n = static_cast<size_t>(int64_t{n_kv_heads_} * head_dim_);
    return write_kv_bf16(shape(), slot, {k, n}, {v, n}, kv.keys<uint16_t>(layer, page),
                         kv.values<uint16_t>(layer, page));
  }
  const size_t head_bytes = static_cast<size_t>(head_dim_) * sizeof(float);
  for (int64_t head = 0; head < n_kv_heads_; ++head) {
    const int64_t offset = (head * kPageTokens + slot) * head_dim_;
    std::memcpy(kv.keys<float>(layer, page) + offset, k + head * head_dim_, head_bytes);
    std::memcpy(kv.values<float>(layer, page) + offset, v + head * head_dim_, head_bytes);
  }
}

AttentionShape AttentionBlock::shape() const {
  return {.n_heads = n_heads_,
          .n_kv_heads = n_kv_heads_,
          .head_dim = head_dim_,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_))),
          .window = part_.window};
}

void AttentionBlock::attend(const Compute& compute, const StepTokens& step, const KvStore& kv,
                            int layer, Rows<const float> q, std::vector<Scratch<float>>& of_workers,
                            Rows<float> out) const {
  const AttentionShape heads_shape = shape();
  const bool exact = kv.shape().format == KvFormat::kF32;
  const OperationTimer timer(compute.profile, Operation::kAttention, [&] {
    return attention_work(heads_shape, step, exact ? sizeof(float) : sizeof(uint16_t));
  });
  struct Task {
    size_t slice;
    Range tokens;  // within the slice
    int kv_head;
  };
  std::vector<Task> tasks;
  size_t scratch_floats = 0;
  for (size_t s = 0; s < step.slices().size(); ++s) {
    const SequenceSlice& slice = step.slices()[s];
    const auto n_tokens = static_cast<int64_t>(slice.tokens.size());
    const int64_t most = std::min(n_tokens, kTokensPerTask);
    scratch_floats =
        std::max(scratch_floats,
                 exact ? attention_scratch_floats(heads_shape, most, slice.position + n_tokens)
                       : attention_fast_scratch_floats(heads_shape, most));
    // Longest first: later tokens see more keys, and a worker that ends with a short task waits
    // less.
    for (int64_t end = n_tokens; end > 0; end -= kTokensPerTask) {
      for (int head = 0; head < n_kv_heads_; ++head) {
        tasks.push_back({s, {std::max<int64_t>(0, end - kTokensPerTask), end}, head});
      }
    }
  }
  of_workers.resize(static_cast<size_t>(compute.pool->n_workers()));
  for (auto& scratch : of_workers) scratch.take(scratch_floats);
  const auto run = [&](const auto& pages, auto attention) {
    const int group = n_heads_ / n_kv_heads_;
    compute.pool->parallel_for_shares(
        static_cast<int64_t>(tasks.size()), 1, [&](Range range, int worker) {
          for (int64_t i = range.begin; i < range.end; ++i) {
            const Task& task = tasks[static_cast<size_t>(i)];
            const int64_t first_row = step.first_row(task.slice) + task.tokens.begin;
            const std::span scratch(of_workers[static_cast<size_t>(worker)].take(scratch_floats),
                                    scratch_floats);
            attention(Range{int64_t{task.kv_head} * group, int64_t{task.kv_head + 1} * group},
                      dense_rows(q.row(first_row), task.tokens.size(), q.cols),
                      step.slices()[task.slice].position + task.tokens.begin, pages[task.slice],
                      scratch, dense_rows(out.row(first_row), task.tokens.size(), out.cols));
          }
        });
  };
  if (exact) {
    run(page_pointers<float>(step, kv, layer),
        [&](Range heads, Rows<const float> queries, int64_t position,
            const PagePointers<float>& pages, std::span<float> scratch, Rows<float> y) {
          attention_exact(compute.isa, heads_shape, heads, queries, position,
                          {pages.keys, pages.values},
                          /*sinks=*/{}, scratch, y);
        });
  } else {
    run(page_pointers<uint16_t>(step, kv, layer),
        [&](Range heads, Rows<const float> queries, int64_t position,
            const PagePointers<uint16_t>& pages, std::span<float> scratch, Rows<float> y) {
          attention_fast(compute.isa, heads_shape, heads, queries, position,
                         {pages.keys, pages.values},
                         /*sinks=*/{}, scratch, y);
        });
  }
}

}  // namespace penstock
