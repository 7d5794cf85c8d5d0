#include "model/gpu/gpu_load.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "checkpoint/pack.h"
#include "kernels/attention/attention.h"
#include "model/gpu/gpu_decoder.h"

namespace penstock {
namespace {

// Tokens of the largest step that room is made for before the KV cache takes the rest; larger ones
// find room or fail for themselves.
constexpr int64_t kLargestStep = 2048;
// Left to the driver: local memory of kernels, and the like.
constexpr size_t kSpare = 128 * kMiB;

// VRAM that the model may still take, of what it was allowed at first.
class Budget {
 public:
  static Result<Budget> begin(const GpuTarget& target) {
    PENSTOCK_ASSIGN(const DeviceMemoryInfo info,
                    settled(*target.driver, target.driver->memory_info()));
    const size_t free = info.free_bytes - std::min(kSpare, info.free_bytes);
    return Budget(target, info.free_bytes,
                  std::min<uint64_t>(free, target.vram_budget_bytes.value_or(free)));
  }
  size_t bytes() const { return bytes_; }
  Result<size_t> left() const {
    PENSTOCK_ASSIGN(const DeviceMemoryInfo info,
                    settled(*target_->driver, target_->driver->memory_info()));
    const size_t used = free_at_first_ - std::min(free_at_first_, info.free_bytes);
    return bytes_ - std::min(bytes_, used);
  }

 private:
  Budget(const GpuTarget& target, size_t free_at_first, size_t bytes)
      : target_(&target), free_at_first_(free_at_first), bytes_(bytes) {}

  const GpuTarget* target_;
  size_t free_at_first_;
  size_t bytes_;
};

Result<void> check_fit(const Checkpoint& checkpoint, const GpuTarget& target,
                       const GpuWeightBytes& weights, size_t budget) {
  const size_t page = gpu_page_bytes(checkpoint.spec);
  if (weights.dense + weights.experts + page <= budget) return {};
  return std::unexpected(Error{
      .kind = ErrorKind::kExhausted,
      .message =
          fmt::format("{} does not fit {}: {} of dense weights, {} of experts and a KV page of {} "
                      "against {} of VRAM",
                      checkpoint.name, target.name, format_bytes(weights.dense),
                      format_bytes(weights.experts), format_bytes(page), format_bytes(budget)),
      .hint =
          target.vram_budget_bytes
              ? "--vram-budget sets how much of VRAM there is; --gpu none runs the model on the CPU"
              : "--gpu none runs the model on the CPU"});
}

// As wished, within what VRAM is left; at least a page.
Result<int64_t> kv_pages(const ModelSpec& spec, int64_t wished_tokens, size_t left,
                         std::vector<std::string>& notes) {
  const size_t page = gpu_page_bytes(spec);
  const auto fitting = static_cast<int64_t>(left / page);
  const int64_t wanted = pages_for(wished_tokens > 0 ? wished_tokens : spec.context_length);
  if (wanted <= fitting) return wanted;
  if (wished_tokens > 0 || fitting == 0) {
    return fail(ErrorKind::kExhausted,
                "a KV cache of {} tokens takes {} of VRAM, {} are left beside the weights",
                wanted * kPageTokens, format_bytes(static_cast<uint64_t>(wanted) * page),
                format_bytes(left));
  }
  notes.push_back(
      fmt::format("the KV cache holds {} of the model's {} tokens: {} of VRAM were left for it; "
                  "--kv-tokens sets it",
                  fitting * kPageTokens, spec.context_length, format_bytes(left)));
  return fitting;
}

}  // namespace

Result<LoadedModel> load_gpu_model(const Checkpoint& checkpoint, const LoadOptions& options,
                                   const GpuTarget& target) {
  const auto begin = std::chrono::steady_clock::now();
  const ModelSpec& spec = checkpoint.spec;
  PENSTOCK_ASSIGN(const DecoderParts parts, compose(spec));
  PENSTOCK_ASSIGN(const GpuWeightBytes bytes, GpuWeights::measure(checkpoint, parts));
  PENSTOCK_ASSIGN(const Budget budget, Budget::begin(target));
  PENSTOCK_TRY(check_fit(checkpoint, target, bytes, budget.bytes()));
  if (options.verify) PENSTOCK_TRY(verify_pack(checkpoint, options.progress, /*stop=*/{}));

  PENSTOCK_ASSIGN(auto pool, Pool::make({.n_threads = options.n_threads}));
  // Read once, from there to VRAM; the embedding's rows also later.
  PENSTOCK_ASSIGN(WeightStore host, WeightStore::load(checkpoint, {.map_files = true}));
  PENSTOCK_ASSIGN(Stream stream, Stream::create(*target.driver));
  PENSTOCK_ASSIGN(GpuWeights weights,
                  GpuWeights::upload({target.driver.get(), stream.id()}, checkpoint, parts, host,
                                     options.progress));
  LoadReport report = {.mode = LoadMode::kMap,
                       .weight_bytes = bytes.dense + bytes.experts,
                       .is_unverified = checkpoint.kind == SourceKind::kPack && !options.verify,
                       .gpu = target.name,
                       .n_threads = pool->n_workers(),
                       .n_cpus = pool->placement().n_usable};
  if (!pool->note().empty()) report.notes.push_back(pool->note());
  PENSTOCK_ASSIGN(auto decoder,
                  GpuDecoder::make(spec, {.driver = target.driver,
                                          .pins = std::make_unique<PinStore>(
                                              *target.driver, target.pins, target.log),
                                          .stream = std::move(stream),
                                          .weights = std::move(weights),
                                          .host = std::move(host),
                                          .pool = std::move(pool),
                                          .use_graphs = target.use_graphs}));
  PENSTOCK_TRY(decoder->reserve_step(std::min(kLargestStep, spec.context_length)));
  PENSTOCK_ASSIGN(const size_t left, budget.left());
  PENSTOCK_ASSIGN(const int64_t n_pages, kv_pages(spec, options.kv_tokens, left, report.notes));
  PENSTOCK_TRY(decoder->allocate_kv(n_pages));
  report.kv_tokens = n_pages * kPageTokens;
  report.kv_bytes = static_cast<uint64_t>(n_pages) * gpu_page_bytes(spec);
  report.loading.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return LoadedModel{.model = std::move(decoder), .report = std::move(report)};
}

}  // namespace penstock
