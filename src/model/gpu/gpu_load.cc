#include "model/gpu/gpu_load.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/integers.h"
#include "base/units.h"
#include "checkpoint/pack.h"
#include "kernels/attention/attention.h"
#include "memory/bank_store.h"
#include "model/gpu/gpu_decoder.h"

namespace penstock {
namespace {

// Tokens of the largest step that room is made for before the KV cache takes the rest; larger ones
// find room or fail for themselves.
constexpr int64_t kLargestStep = 2048;
// Left to the driver: local memory of kernels, and the like.
constexpr size_t kSpare = 128 * kMiB;
// What steps are taken to need before it is measured.
constexpr size_t kWorkspaceGuess = 512 * kMiB;

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

// Tokens of KV cache that experts leave room for, where neither user nor VRAM says otherwise.
constexpr int64_t kUsualKvTokens = 32768;

size_t kv_bytes(const ModelSpec& spec, int64_t n_tokens) {
  return static_cast<size_t>(pages_for(n_tokens)) * gpu_page_bytes(spec);
}
int64_t least_kv_tokens(const ModelSpec& spec, const LoadOptions& options) {
  return options.kv_tokens > 0 ? options.kv_tokens : std::min(spec.context_length, kUsualKvTokens);
}

// Whether every expert has a slot; an error where not even a token's experts have.
Result<GpuExpertPlace> place_experts(const Checkpoint& checkpoint, const LoadOptions& options,
                                     const GpuTarget& target, const GpuWeightBytes& weights,
                                     size_t budget) {
  const ModelSpec& spec = checkpoint.spec;
  const size_t kv = kv_bytes(spec, least_kv_tokens(spec, options));
  const size_t beside = weights.dense + kv + kWorkspaceGuess;
  const auto n_experts = static_cast<int64_t>(weights.experts / std::max<size_t>(weights.slot, 1));
  const bool is_told = options.expert_slots.is_given();
  const int64_t n_slots = is_told ? options.expert_slots.of(n_experts) : n_experts;
  const size_t slots = static_cast<size_t>(n_slots) * weights.slot;
  if (beside + slots <= budget && n_slots == n_experts) return GpuExpertPlace::kAllInSlots;
  const size_t least = is_told ? slots : static_cast<size_t>(spec.moe.top_k) * weights.slot;
  if (spec.moe.n_experts > 0 && beside + least <= budget) return GpuExpertPlace::kCached;
  return std::unexpected(Error{
      .kind = ErrorKind::kExhausted,
      .message = fmt::format(
          "{} does not fit {}: {} of dense weights, {} for at least {} experts, {} of "
          "work space and {} for {} tokens of KV cache against {} of VRAM",
          checkpoint.name, target.name, format_bytes(weights.dense), format_bytes(least),
          is_told ? n_slots : spec.moe.top_k, format_bytes(kWorkspaceGuess), format_bytes(kv),
          least_kv_tokens(spec, options), format_bytes(budget)),
      .hint =
          target.vram_budget_bytes
              ? "--vram-budget sets how much of VRAM there is, --kv-tokens the cache; --gpu none "
                "runs the model on the CPU"
              : "--kv-tokens makes the cache smaller; --gpu none runs the model on the CPU"});
}

// All routed experts in RAM, page-locked as far as the driver grants it.
Result<std::unique_ptr<BankStore>> load_banks(const Checkpoint& checkpoint,
                                              const LoadOptions& options, PinStore& pins,
                                              Pool& pool, const GpuWeightBytes& weights) {
  if (const uint64_t ram = available_memory_bytes(); ram < weights.experts) {
    return fail(
        ErrorKind::kExhausted,
        "{} of experts fit neither VRAM nor the free RAM ({}), and a GPU reads none from disk "
        "yet; --gpu none runs the model on the CPU",
        format_bytes(weights.experts), format_bytes(ram));
  }
  const std::vector<Residency> residencies(static_cast<size_t>(checkpoint.spec.n_layers()),
                                           Residency::kPinned);
  return BankStore::load(
      checkpoint,
      {.residencies = residencies, .pins = &pins, .pool = &pool, .progress = options.progress});
}

// The rest of VRAM in slots, or as many as the user says.
Result<void> add_slots(const LoadOptions& options, const GpuWeightBytes& weights, size_t left,
                       const BankStore& banks, GpuDecoder& decoder, LoadReport& report) {
  const auto n_experts = static_cast<int64_t>(weights.experts / weights.slot);
  const auto fitting = std::min(n_experts, static_cast<int64_t>(left / weights.slot));
  const int64_t n_slots =
      options.expert_slots.is_given() ? options.expert_slots.of(n_experts) : fitting;
  if (n_slots > fitting || n_slots < 1) {
    return fail(ErrorKind::kExhausted,
                "{} expert slots take {} of VRAM, {} are left for {} of them", n_slots,
                format_bytes(static_cast<uint64_t>(n_slots) * weights.slot), format_bytes(left),
                fitting);
  }
  report.n_expert_slots = n_slots;
  report.n_experts = n_experts;
  report.expert_slot_bytes = static_cast<uint64_t>(n_slots) * weights.slot;
  report.pinned_bytes = banks.pinned_bytes();
  report.loading += banks.loading();
  if (banks.pinned_bytes() < banks.bytes()) {
    report.notes.push_back(
        fmt::format("{} of {} of experts are page-locked: the others are copied to the GPU at a "
                    "third of the rate",
                    format_bytes(banks.pinned_bytes()), format_bytes(banks.bytes())));
  }
  return decoder.allocate_slots(n_slots);
}

// As wished, within what VRAM is left; at least a page.
Result<int64_t> kv_pages(const ModelSpec& spec, int64_t wished_tokens, int64_t most_tokens,
                         size_t left, std::vector<std::string>& notes) {
  const size_t page = gpu_page_bytes(spec);
  const auto fitting = static_cast<int64_t>(left / page);
  const int64_t wanted = pages_for(wished_tokens > 0 ? wished_tokens : most_tokens);
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
  PENSTOCK_ASSIGN(const GpuExpertPlace place,
                  place_experts(checkpoint, options, target, bytes, budget.bytes()));
  if (options.verify) PENSTOCK_TRY(verify_pack(checkpoint, options.progress, /*stop=*/{}));

  PENSTOCK_ASSIGN(auto pool, Pool::make({.n_threads = options.n_threads}));
  // Read once, from there to VRAM; the embedding's rows also later.
  PENSTOCK_ASSIGN(WeightStore host, WeightStore::load(checkpoint, {.map_files = true}));
  PENSTOCK_ASSIGN(Stream stream, Stream::create(*target.driver));
  PENSTOCK_ASSIGN(GpuWeights weights,
                  GpuWeights::upload({target.driver.get(), stream.id()}, checkpoint, parts, host,
                                     place, options.progress));
  LoadReport report = {.mode = LoadMode::kMap,
                       .weight_bytes = bytes.dense + bytes.experts,
                       .is_unverified = checkpoint.kind == SourceKind::kPack && !options.verify,
                       .gpu = target.name,
                       .n_threads = pool->n_workers(),
                       .n_cpus = pool->placement().n_usable};
  if (!pool->note().empty()) report.notes.push_back(pool->note());
  auto pins = std::make_unique<PinStore>(*target.driver, target.pins, target.log);
  const bool is_cached = place == GpuExpertPlace::kCached;
  std::unique_ptr<BankStore> banks;
  if (is_cached) {
    PENSTOCK_ASSIGN(banks, load_banks(checkpoint, options, *pins, *pool, bytes));
  }
  const BankStore* const in_ram = banks.get();
  PENSTOCK_ASSIGN(auto decoder, GpuDecoder::make(spec, {.driver = target.driver,
                                                        .pins = std::move(pins),
                                                        .banks = std::move(banks),
                                                        .stream = std::move(stream),
                                                        .weights = std::move(weights),
                                                        .host = std::move(host),
                                                        .pool = std::move(pool),
                                                        .use_graphs = target.use_graphs}));
  PENSTOCK_TRY(decoder->reserve_step(std::min(kLargestStep, spec.context_length)));
  PENSTOCK_ASSIGN(const size_t left, budget.left());
  // Experts have the rest where they do not all fit.
  const int64_t most_tokens = is_cached ? least_kv_tokens(spec, options) : spec.context_length;
  PENSTOCK_ASSIGN(const int64_t n_pages,
                  kv_pages(spec, options.kv_tokens, most_tokens, left, report.notes));
  PENSTOCK_TRY(decoder->allocate_kv(n_pages));
  report.kv_tokens = n_pages * kPageTokens;
  report.kv_bytes = static_cast<uint64_t>(n_pages) * gpu_page_bytes(spec);
  if (is_cached) {
    PENSTOCK_ASSIGN(const size_t for_slots, budget.left());
    PENSTOCK_TRY(add_slots(options, bytes, for_slots, *in_ram, *decoder, report));
  }
  report.loading.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return LoadedModel{.model = std::move(decoder), .report = std::move(report)};
}

}  // namespace penstock
