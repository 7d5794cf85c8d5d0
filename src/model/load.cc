#include "model/load.h"

#include <algorithm>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "checkpoint/pack.h"
#include "cpu/pool.h"
#include "kernels/attention/attention.h"
#include "memory/expert_cache.h"
#include "model/decoder.h"

namespace penstock {
namespace {

// KV tokens when the user names none: one full context, unless that takes more than a quarter of
// the RAM that is free once the weights are in.
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

// Slots when the user names none: what is left of the free RAM beside the KV cache, less an eighth
// for the rest of the system, and at least what a step of a small model and a pack's verification
// were seen to need.
int64_t default_expert_slots(const ExpertLayout& layout, uint64_t kv_bytes) {
  constexpr uint64_t kLeastForOthers = 64 * kMiB;
  const uint64_t available = available_memory_bytes();
  const uint64_t others = std::max(available / 8, kLeastForOthers) + kv_bytes;
  const uint64_t budget = available - std::min(available, others);
  return std::max<int64_t>(1, static_cast<int64_t>(budget / layout.slot_bytes()));
}

Result<std::unique_ptr<ExpertCache>> make_expert_cache(const Checkpoint& checkpoint,
                                                       const ExpertSlots& wanted,
                                                       LoadReport& report) {
  PENSTOCK_ASSIGN(ExpertLayout layout, ExpertLayout::make(checkpoint));
  if (layout.n_experts() == 0) {
    return fail(ErrorKind::kInvalidArgument,
                "{} has no routed experts that could stay on disk (--load disk)",
                checkpoint.path.string());
  }
  const int64_t n_slots = wanted.is_given() ? wanted.of(layout.n_experts())
                                            : default_expert_slots(layout, report.kv_bytes);
  PENSTOCK_ASSIGN(auto cache, ExpertCache::make(checkpoint, std::move(layout), n_slots));
  report.n_expert_slots = cache->n_slots();
  report.n_experts = cache->n_experts();
  report.expert_slot_bytes = static_cast<uint64_t>(cache->n_slots()) * cache->slot_bytes();
  if (!cache->note().empty()) report.notes.push_back(cache->note());
  return cache;
}

// What the options say together.
Result<LoadMode> mode_of(const LoadOptions& options) {
  if (!options.expert_slots.is_given()) return options.mode;
  if (options.mode == LoadMode::kAuto || options.mode == LoadMode::kDisk) return LoadMode::kDisk;
  return fail(
      ErrorKind::kInvalidArgument,
      "--expert-slots is for experts that stay on disk, which --load {} does not leave there",
      options.mode == LoadMode::kRead ? "read" : "map");
}

}  // namespace

Result<LoadedModel> load_model(const Checkpoint& checkpoint, const LoadOptions& options) {
  const ModelSpec& spec = checkpoint.spec;
  PENSTOCK_ASSIGN(const Isa isa, options.isa ? Result<Isa>(*options.isa) : choose_isa());
  PENSTOCK_ASSIGN(auto pool, Pool::make({.n_threads = options.n_threads}));
  // The exact class reads rows as they are stored, and so does plain C++.
  const bool interleave =
      options.interleave && options.precision == Precision::kFast && isa >= Isa::kAvx2;
  PENSTOCK_ASSIGN(const LoadMode mode, mode_of(options));
  PENSTOCK_ASSIGN(auto weights, WeightStore::load(checkpoint, {.mode = mode,
                                                               .pool = pool.get(),
                                                               .interleave = interleave,
                                                               .nodes = pool->placement().nodes,
                                                               .progress = options.progress}));

  // What is read is compared then; experts on disk when they are first used, or now.
  const bool is_compared = weights.loading().is_verified && weights.mode() == LoadMode::kRead;
  if (options.verify && !is_compared) {
    PENSTOCK_TRY(verify_pack(checkpoint, options.progress, /*stop=*/{}));
  }

  LoadReport report = {.mode = weights.mode(),
                       .interleaved = weights.is_interleaved(),
                       .weight_bytes = weights.bytes(),
                       .loading = weights.loading(),
                       .is_unverified = checkpoint.kind == SourceKind::kPack &&
                                        weights.mode() == LoadMode::kMap && !options.verify,
                       .isa = isa,
                       .precision = options.precision,
                       .n_threads = pool->n_workers(),
                       .n_cpus = pool->placement().n_usable};
  for (const std::string& note : {pool->note(), weights.note()}) {
    if (!note.empty()) report.notes.push_back(note);
  }
  const KvShape shape = {
      .n_layers = spec.n_layers(),
      .n_kv_heads = spec.n_kv_heads,
      .head_dim = spec.head_dim,
      .format = options.precision == Precision::kExact ? KvFormat::kF32 : KvFormat::kBF16};
  report.kv_tokens = options.kv_tokens > 0 ? round_up(options.kv_tokens, kPageTokens)
                                           : default_kv_tokens(spec, shape, report.notes);
  const int64_t n_pages = report.kv_tokens / kPageTokens;
  report.kv_bytes = static_cast<uint64_t>(n_pages) * shape.page_bytes();
  std::unique_ptr<ExpertCache> experts;
  if (weights.mode() == LoadMode::kDisk) {
    PENSTOCK_ASSIGN(experts, make_expert_cache(checkpoint, options.expert_slots, report));
  }
  PENSTOCK_ASSIGN(auto kv, KvStore::make(shape, n_pages));
  PENSTOCK_ASSIGN(auto decoder,
                  Decoder::make(spec, std::move(weights), std::move(experts), std::move(kv),
                                std::move(pool), isa, options.precision));
  return LoadedModel{.model = std::move(decoder), .report = std::move(report)};
}

}  // namespace penstock
