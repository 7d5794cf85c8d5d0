#include "model/blocks/moe_block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "kernels/swiglu/swiglu.h"

namespace penstock {

Result<MoeBlock> MoeBlock::load(const ModelSpec& spec, const MoePart& part,
                                const WeightStore& weights, std::string_view prefix,
                                LayerExperts layer) {
  const auto name = [&](std::string_view tensor) { return fmt::format("{}{}", prefix, tensor); };
  MoeBlock block;
  block.part_ = part;
  block.layer_ = layer.index;
  PENSTOCK_ASSIGN(block.router_, weights.matrix(name("router")));
  if (part.router.has_bias) {
    PENSTOCK_ASSIGN(block.router_bias_, weights.vector(name("router_bias"), part.n_experts));
  }
  PENSTOCK_TRY(block.find_experts(weights, prefix, layer));
  if (part.shared_dim > 0) {
    const DensePart shared = {.dim = part.shared_dim, .bias = spec.mlp_bias};
    PENSTOCK_ASSIGN(block.shared_, DenseFfnBlock::load(shared, weights, name("shared.")));
  }
  return block;
}

Result<void> MoeBlock::find_experts(const WeightStore& weights, std::string_view prefix,
                                    const LayerExperts& layer) {
  const bool has_bank = layer.banks != nullptr && layer.banks->has(layer.index);
  if (!has_bank && layer.cache != nullptr) {
    cache_ = layer.cache;
    return {};
  }
  for (int e = 0; e < part_.n_experts; ++e) {
    if (has_bank) {
      experts_.push_back(layer.banks->matrices(
          {.layer = static_cast<uint16_t>(layer.index), .index = static_cast<uint16_t>(e)}));
      continue;
    }
    ExpertMatrices& expert = experts_.emplace_back();
    PENSTOCK_ASSIGN(expert.gate, weights.matrix(fmt::format("{}experts.{}.gate", prefix, e)));
    PENSTOCK_ASSIGN(expert.up, weights.matrix(fmt::format("{}experts.{}.up", prefix, e)));
    PENSTOCK_ASSIGN(expert.down, weights.matrix(fmt::format("{}experts.{}.down", prefix, e)));
  }
  return {};
}

Result<void> MoeBlock::forward(const Compute& compute, const StepTokens& step, Buffers& buffers,
                               Rows<const float> h, Rows<float> y, const Ahead& ahead) const {
  choose(compute, buffers, h);
  std::vector<Group> groups = group_by_expert(compute, step, buffers);
  if (compute.routing != nullptr) tell(*compute.routing, groups);
  const auto outputs = scratch_rows(buffers.output, h.n_rows * part_.top_k, h.cols);
  if (cache_ != nullptr) {
    PENSTOCK_TRY(run_from_disk(compute, groups, buffers, h, outputs, ahead));
  } else {
    ahead.prefetch();
    for (Group& group : groups) group.matrices = &experts_[static_cast<size_t>(group.expert)];
    run_experts(compute, groups, buffers, h, outputs);
  }
  combine(compute, buffers, outputs, y);
  if (shared_) {
    const auto shared = scratch_rows(buffers.shared_output, y.n_rows, y.cols);
    shared_->forward(compute, step, buffers.of_shared, h, shared);
    const OperationTimer timer(compute.profile, Operation::kCombine);
    add_rows(compute, shared, y);
  }
  return {};
}

void MoeBlock::guess_experts(const Compute& compute, Buffers& buffers, Rows<const float> h,
                             std::vector<ExpertGuess>& guesses) const {
  choose(compute, buffers, h);
  guesses.clear();
  for (int rank = 0; rank < part_.top_k; ++rank) {
    for (int64_t t = 0; t < h.n_rows; ++t) {
      const auto& choice = buffers.choices[static_cast<size_t>(t * part_.top_k + rank)];
      const int expert = static_cast<int>(choice.expert);
      if (std::ranges::find(guesses, expert, &ExpertGuess::expert) == guesses.end()) {
        guesses.push_back({expert, rank});
      }
    }
  }
}

void MoeBlock::tell(RoutingObserver& observer, std::span<const Group> groups) const {
  std::vector<int> experts;
  for (const Group& group : groups) experts.push_back(group.expert);
  observer.visit(layer_, experts);
}

Result<void> MoeBlock::run_from_disk(const Compute& compute, std::span<const Group> groups,
                                     Buffers& buffers, Rows<const float> h, Rows<float> outputs,
                                     const Ahead& ahead) const {
  std::vector<Group> left(groups.begin(), groups.end());
  bool is_first = true;
  while (!left.empty()) {
    std::vector<int> wanted;
    for (const Group& group : left) wanted.push_back(group.expert);
    ExpertWave wave = cache_->begin(layer_, wanted);
    if (std::exchange(is_first, false)) ahead.prefetch();
    for (;;) {
      PENSTOCK_ASSIGN(const std::vector<LeasedExpert> landed, wave.next());
      if (landed.empty()) break;
      std::vector<Group> there;
      for (const LeasedExpert& expert : landed) {
        there.push_back(left[expert.which]);
        there.back().matrices = &expert.matrices;
      }
      run_experts(compute, there, buffers, h, outputs);
    }
    std::vector<Group> others;
    for (size_t i = 0; i < left.size(); ++i) {
      if (std::ranges::find(wave.members(), i) == wave.members().end()) others.push_back(left[i]);
    }
    left = std::move(others);
  }
  return {};
}

void MoeBlock::run_experts(const Compute& compute, std::span<const Group> groups, Buffers& buffers,
                           Rows<const float> h, Rows<float> outputs) const {
  // So many for each worker that none waits long for the last.
  constexpr size_t kWholeExperts = 8;
  if (groups.size() >= kWholeExperts * static_cast<size_t>(compute.pool->n_workers())) {
    run_whole_experts(compute, groups, buffers, h, outputs);
  } else {
    run_shared_experts(compute, groups, buffers, h, outputs);
  }
}

void MoeBlock::choose(const Compute& compute, Buffers& buffers, Rows<const float> h) const {
  const auto logits = scratch_rows(buffers.logits, h.n_rows, part_.n_experts);
  buffers.choices.resize(static_cast<size_t>(h.n_rows * part_.top_k));
  const MatmulJob job = {&router_, h, logits};
  const OperationTimer timer(compute.profile, Operation::kRouter,
                             [&] { return work_of({&job, 1}); });
  run_matmuls(compute.exact(), std::span(&job, 1));
  for_each_row(compute, h.n_rows, part_.n_experts * kSelection, [&](Range range) {
    const auto top_k = static_cast<size_t>(part_.top_k);
    for (int64_t t = range.begin; t < range.end; ++t) {
      route(part_.router, {logits.row(t), static_cast<size_t>(part_.n_experts)}, router_bias_,
            std::span(buffers.choices).subspan(static_cast<size_t>(t) * top_k, top_k));
    }
  });
}

// A counting sort of the assignments by expert, tokens in order within each: generated ones first.
std::vector<MoeBlock::Group> MoeBlock::group_by_expert(const Compute& compute,
                                                       const StepTokens& step,
                                                       Buffers& buffers) const {
  const OperationTimer timer(compute.profile, Operation::kGrouping);
  const std::vector<ExpertChoice>& choices = buffers.choices;
  const auto n_experts = static_cast<size_t>(part_.n_experts);
  std::vector<int64_t> next(n_experts + 1, 0);
  for (const ExpertChoice& choice : choices) ++next[static_cast<size_t>(choice.expert) + 1];
  std::vector<Group> groups;
  for (size_t e = 0; e < n_experts; ++e) {
    if (next[e + 1] > 0) {
      groups.push_back({static_cast<int>(e), {next[e], next[e] + next[e + 1]}});
    }
    next[e + 1] += next[e];
  }
  std::vector<int64_t> n_generated(n_experts, 0);
  for (int64_t i = 0; i < step.n_generated() * part_.top_k; ++i) {
    ++n_generated[static_cast<size_t>(choices[static_cast<size_t>(i)].expert)];
  }
  for (Group& group : groups) {
    group.n_generated = n_generated[static_cast<size_t>(group.expert)];
  }
  buffers.row_of.resize(choices.size());
  buffers.token_of.resize(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const int64_t row = next[static_cast<size_t>(choices[i].expert)]++;
    buffers.row_of[i] = row;
    buffers.token_of[static_cast<size_t>(row)] = static_cast<int64_t>(i) / part_.top_k;
  }
  return groups;
}

OperationWork MoeBlock::work_of_experts(std::span<const Group> groups) const {
  OperationWork work;
  for (const Group& group : groups) {
    const Rows<const float> x = {nullptr, group.rows.size(), 0, 0};
    const auto& [gate, up, down] = *group.matrices;
    const std::array jobs = {MatmulJob{&gate, x}, MatmulJob{&up, x}, MatmulJob{&down, x}};
    const OperationWork of_group = work_of(jobs);
    work.bytes += of_group.bytes;
    work.operations += of_group.operations;
  }
  return work;
}

// The largest first: the last to end are then small.
void MoeBlock::run_whole_experts(const Compute& compute, std::span<const Group> groups,
                                 Buffers& buffers, Rows<const float> h, Rows<float> outputs) const {
  const OperationTimer timer(compute.profile, Operation::kWholeExperts,
                             [&] { return work_of_experts(groups); });
  std::vector<const Group*> by_size;
  by_size.reserve(groups.size());
  for (const Group& group : groups) by_size.push_back(&group);
  std::ranges::stable_sort(by_size, std::greater(),
                           [](const Group* group) { return group->rows.size(); });
  buffers.workers.resize(static_cast<size_t>(compute.pool->n_workers()));
  compute.pool->parallel_for(static_cast<int64_t>(by_size.size()), 1, [&](Range range, int worker) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      run_expert(compute, *by_size[static_cast<size_t>(i)], buffers.token_of,
                 buffers.workers[static_cast<size_t>(worker)], h, outputs);
    }
  });
}

void MoeBlock::run_expert(const Compute& compute, const Group& group,
                          std::span<const int64_t> token_of, Buffers::Worker& worker,
                          Rows<const float> h, Rows<float> outputs) const {
  const int64_t n_rows = group.rows.size();
  const auto input = scratch_rows(worker.input, n_rows, h.cols);
  for (int64_t i = 0; i < n_rows; ++i) {
    std::memcpy(input.row(i), h.row(token_of[static_cast<size_t>(group.rows.begin + i)]),
                static_cast<size_t>(h.cols) * sizeof(float));
  }
  const auto& [gate_weights, up_weights, down_weights] = *group.matrices;
  const auto gate = scratch_rows(worker.gate, n_rows, part_.expert_dim);
  const auto up = scratch_rows(worker.up, n_rows, part_.expert_dim);
  worker.of_input.set_input(compute, input, group.n_generated,
                            std::array{&gate_weights, &up_weights});
  worker.of_input.multiply(gate_weights, gate);
  worker.of_input.multiply(up_weights, up);
  swiglu_exact(compute.isa, gate, up, gate);
  worker.of_gate.set_input(compute, gate, group.n_generated, std::array{&down_weights});
  worker.of_gate.multiply(down_weights, dense_rows(outputs.row(group.rows.begin), n_rows, h.cols));
}

void MoeBlock::for_rows_of(const Compute& compute, std::span<const Group> groups, int64_t row_work,
                           FunctionRef<void(Range rows)> body) {
  int64_t n_rows = 0;
  for (const Group& group : groups) n_rows += group.rows.size();
  for_each_row(compute, n_rows, row_work, [&](Range part) {
    int64_t n_before = 0;
    for (const Group& group : groups) {
      const int64_t begin = std::max(part.begin - n_before, int64_t{0});
      const int64_t end = std::min(part.end - n_before, group.rows.size());
      if (begin < end) body({group.rows.begin + begin, group.rows.begin + end});
      n_before += group.rows.size();
    }
  });
}

void MoeBlock::run_shared_experts(const Compute& compute, std::span<const Group> groups,
                                  Buffers& buffers, Rows<const float> h,
                                  Rows<float> outputs) const {
  const int64_t n_rows = outputs.n_rows;
  const auto inputs = scratch_rows(buffers.input, n_rows, h.cols);
  {
    const OperationTimer timer(compute.profile, Operation::kGrouping);
    for_rows_of(compute, groups, h.cols * kPlainPass, [&](Range range) {
      for (int64_t row = range.begin; row < range.end; ++row) {
        std::memcpy(inputs.row(row), h.row(buffers.token_of[static_cast<size_t>(row)]),
                    static_cast<size_t>(h.cols) * sizeof(float));
      }
    });
  }
  const auto gate_out = scratch_rows(buffers.gate, n_rows, part_.expert_dim);
  const auto up_out = scratch_rows(buffers.up, n_rows, part_.expert_dim);
  const auto rows = [](Rows<float> all, Range range) {
    return dense_rows(all.row(range.begin), range.size(), all.cols);
  };

  std::vector<MatmulJob> jobs;
  for (const Group& group : groups) {
    const auto input = rows(inputs, group.rows);
    const auto& [gate, up, down] = *group.matrices;
    jobs.push_back({&gate, input, rows(gate_out, group.rows), group.n_generated});
    jobs.push_back({&up, input, rows(up_out, group.rows), group.n_generated});
  }
  {
    const OperationTimer timer(compute.profile, Operation::kExpertGateUp,
                               [&] { return work_of(jobs); });
    run_matmuls(compute, jobs);
  }
  {
    const OperationTimer timer(compute.profile, Operation::kExpertActivation);
    for_rows_of(compute, groups, part_.expert_dim * kConversion, [&](Range range) {
      const auto gate = rows(gate_out, range);
      swiglu_exact(compute.isa, gate, rows(up_out, range), gate);
    });
  }

  jobs.clear();
  for (const Group& group : groups) {
    jobs.push_back({&group.matrices->down, rows(gate_out, group.rows), rows(outputs, group.rows),
                    group.n_generated});
  }
  const OperationTimer timer(compute.profile, Operation::kExpertDown,
                             [&] { return work_of(jobs); });
  run_matmuls(compute, jobs);
}

void MoeBlock::combine(const Compute& compute, const Buffers& buffers, Rows<const float> outputs,
                       Rows<float> y) const {
  const OperationTimer timer(compute.profile, Operation::kCombine);
  for_each_row(compute, y.n_rows, y.cols * part_.top_k * kPlainPass, [&](Range range) {
    for (int64_t t = range.begin; t < range.end; ++t) {
      float* const sum = y.row(t);
      std::memset(sum, 0, static_cast<size_t>(y.cols) * sizeof(float));
      for (int64_t choice = 0; choice < part_.top_k; ++choice) {
        const auto i = static_cast<size_t>(t * part_.top_k + choice);
        const float weight = buffers.choices[i].weight;
        const float* const output = outputs.row(buffers.row_of[i]);
        for (int64_t d = 0; d < y.cols; ++d) sum[d] += weight * output[d];
      }
    }
  });
}

}  // namespace penstock
