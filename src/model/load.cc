#include "model/load.h"

#include <algorithm>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "checkpoint/pack.h"
#include "cpu/pool.h"
#include "kernels/attention/attention.h"
#include "memory/bank_store.h"
#include "memory/expert_cache.h"
#include "model/decoder.h"
#include "model/gpu/gpu_load.h"
#include "model/load_plan.h"

namespace penstock {
namespace {

// KV tokens when neither user nor plan names them: one full context, unless that takes more than a
// quarter of the RAM that is free once the weights are in.
int64_t default_kv_tokens(const ModelSpec& spec, const KvShape& shape,
                          std::vector<std::string>& notes) {
  const uint64_t budget = available_memory_bytes() / 4;
  const auto fitting = static_cast<int64_t>(budget / shape.page_bytes()) * kPageTokens;
  const int64_t wanted = round_up(spec.context_length, kPageTokens);
  if (wanted <= fitting) return wanted;
  const int64_t granted = std::max(fitting, kPageTokens);
  notes.push_back(
      fmt::format("the KV cache holds {} of the model's {} tokens, a quarter of the free RAM ({}); "
                  "--kv-tokens sets it",
                  granted, spec.context_length, format_bytes(budget)));
  return granted;
}

// The layers whose banks the plan leaves on disk.
LayerSet layers_on_disk(const LoadPlan& plan) {
  LayerSet layers(static_cast<int>(plan.banks.size()));
  for (int layer = 0; layer < layers.n_layers(); ++layer) {
    if (plan.banks[static_cast<size_t>(layer)] == Residency::kDisk) layers.add(layer);
  }
  return layers;
}

Result<std::unique_ptr<ExpertCache>> make_expert_cache(const Checkpoint& checkpoint,
                                                       const LoadPlan& plan, LoadReport& report) {
  if (plan.map_files) return nullptr;
  PENSTOCK_ASSIGN(ExpertLayout layout, ExpertLayout::make(checkpoint, layers_on_disk(plan)));
  if (layout.n_experts() == 0) return nullptr;
  const auto n_fitting = static_cast<int64_t>(plan.slots_bytes / layout.slot_bytes());
  const int64_t n_slots = std::max<int64_t>(1, plan.slots.value_or(n_fitting));
  PENSTOCK_ASSIGN(auto cache, ExpertCache::make(checkpoint, std::move(layout), n_slots));
  report.n_expert_slots = cache->n_slots();
  report.n_experts = cache->n_experts();
  report.expert_slot_bytes = static_cast<uint64_t>(cache->n_slots()) * cache->slot_bytes();
  if (!cache->note().empty()) report.notes.push_back(cache->note());
  return cache;
}

// Experts in RAM; none where files are mapped, or all stay on disk.
Result<std::unique_ptr<BankStore>> load_banks(const Checkpoint& checkpoint, const LoadPlan& plan,
                                              const LoadOptions& options,
                                              const WeightOptions& weights, LoadReport& report) {
  if (plan.map_files || checkpoint.spec.moe.n_experts == 0) return nullptr;
  PENSTOCK_ASSIGN(auto banks, BankStore::load(checkpoint, {.residencies = plan.banks,
                                                           .pins = options.pins,
                                                           .pool = weights.pool,
                                                           .interleave = weights.interleave,
                                                           .nodes = weights.nodes,
                                                           .progress = weights.progress}));
  if (banks->n_banks() == 0) return nullptr;
  report.weight_bytes += banks->bytes();
  report.interleaved |= banks->is_interleaved();
  report.pinned_bytes = banks->pinned_bytes();
  report.locked_bytes = banks->locked_bytes();
  report.loading += banks->loading();
  if (!banks->note().empty()) report.notes.push_back(banks->note());
  return banks;
}

int64_t kv_tokens_of(const ModelSpec& spec, const KvShape& shape, const LoadOptions& options,
                     const LoadPlan& plan, std::vector<std::string>& notes) {
  if (options.kv_tokens > 0) return round_up(options.kv_tokens, kPageTokens);
  if (plan.kv_tokens) return round_up(*plan.kv_tokens, kPageTokens);
  return default_kv_tokens(spec, shape, notes);
}

LoadMode mode_of(const LoadPlan& plan, const ExpertCache* cache) {
  if (plan.map_files) return LoadMode::kMap;
  return cache == nullptr ? LoadMode::kRead : LoadMode::kDisk;
}

}  // namespace

Result<LoadedModel> load_model(const Checkpoint& checkpoint, const LoadOptions& options) {
  if (options.gpu) return load_gpu_model(checkpoint, options, *options.gpu);
  const ModelSpec& spec = checkpoint.spec;
  PENSTOCK_ASSIGN(const Isa isa, options.isa ? Result<Isa>(*options.isa) : choose_isa());
  PENSTOCK_ASSIGN(auto pool, Pool::make({.n_threads = options.n_threads}));
  const bool is_exact = options.precision == Precision::kExact;
  const KvFormat kv_format = is_exact ? KvFormat::kF32 : KvFormat::kBF16;
  PENSTOCK_ASSIGN(const LoadPlan plan, plan_load(checkpoint, options, kv_format));
  const WeightOptions weight_options = {
      .map_files = plan.map_files,
      .pool = pool.get(),
      // The exact class reads rows as they are stored, and so does plain C++.
      .interleave = options.interleave && !is_exact && isa >= Isa::kAvx2,
      .nodes = pool->placement().nodes,
      .progress = options.progress};
  PENSTOCK_ASSIGN(auto weights, WeightStore::load(checkpoint, weight_options));
  LoadReport report = {.interleaved = weights.is_interleaved(),
                       .weight_bytes = weights.bytes(),
                       .prediction = plan.prediction,
                       .loading = weights.loading(),
                       .isa = isa,
                       .precision = options.precision,
                       .n_threads = pool->n_workers(),
                       .n_cpus = pool->placement().n_usable,
                       .notes = plan.notes};
  for (const std::string& note : {pool->note(), weights.note()}) {
    if (!note.empty()) report.notes.push_back(note);
  }
  PENSTOCK_ASSIGN(auto banks, load_banks(checkpoint, plan, options, weight_options, report));
  PENSTOCK_ASSIGN(auto experts, make_expert_cache(checkpoint, plan, report));
  report.mode = mode_of(plan, experts.get());

  // What is read is compared then; experts on disk when they are first used, or now.
  const bool is_compared = report.loading.is_verified && report.mode == LoadMode::kRead;
  if (options.verify && !is_compared) {
    PENSTOCK_TRY(verify_pack(checkpoint, options.progress, /*stop=*/{}));
  }
  report.is_unverified = checkpoint.kind == SourceKind::kPack && plan.map_files && !options.verify;

  const KvShape shape = {.n_layers = spec.n_layers(),
                         .n_kv_heads = spec.n_kv_heads,
                         .head_dim = spec.head_dim,
                         .format = kv_format};
  report.kv_tokens = kv_tokens_of(spec, shape, options, plan, report.notes);
  const int64_t n_pages = report.kv_tokens / kPageTokens;
  report.kv_bytes = static_cast<uint64_t>(n_pages) * shape.page_bytes();
  PENSTOCK_ASSIGN(auto kv, KvStore::make(shape, n_pages));
  PENSTOCK_ASSIGN(auto decoder, Decoder::make(spec,
                                              {.weights = std::move(weights),
                                               .banks = std::move(banks),
                                               .cache = std::move(experts),
                                               .kv = std::move(kv)},
                                              std::move(pool), isa, options.precision));
  return LoadedModel{.model = std::move(decoder), .report = std::move(report)};
}

}  // namespace penstock
