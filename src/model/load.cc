#include "model/load.h"

#include <algorithm>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "cpu/pool.h"
#include "kernels/attention/attention.h"
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

}  // namespace

Result<LoadedModel> load_model(const Checkpoint& checkpoint, const LoadOptions& options) {
  const ModelSpec& spec = checkpoint.spec;
  PENSTOCK_ASSIGN(const Isa isa, options.isa ? Result<Isa>(*options.isa) : choose_isa());
  PENSTOCK_ASSIGN(auto pool, Pool::make({.n_threads = options.n_threads}));
  // The exact class reads rows as they are stored, and so does plain C++.
  const bool interleave =
      options.interleave && options.precision == Precision::kFast && isa >= Isa::kAvx2;
  PENSTOCK_ASSIGN(auto weights,
                  WeightStore::load(checkpoint, {.mode = options.mode,
                                                 .interleave = interleave ? pool.get() : nullptr,
                                                 .nodes = pool->placement().nodes,
                                                 .progress = options.progress}));

  LoadReport report = {.mode = weights.mode(),
                       .interleaved = weights.is_interleaved(),
                       .weight_bytes = weights.bytes(),
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
  PENSTOCK_ASSIGN(auto kv, KvStore::make(shape, n_pages));
  PENSTOCK_ASSIGN(auto decoder, Decoder::make(spec, std::move(weights), std::move(kv),
                                              std::move(pool), isa, options.precision));
  return LoadedModel{.model = std::move(decoder), .report = std::move(report)};
}

}  // namespace penstock
