#include "cli/engine_model.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "memory/kv_spill/kv_spill.h"
#include "model/kv_identity.h"

namespace penstock {
namespace {

// Null where there is none. That a folder cannot be used keeps nobody from being served.
Result<std::unique_ptr<KvTier>> open_spill(const ModelOptions& options,
                                           const Checkpoint& checkpoint, const LoadedModel& loaded,
                                           const Log& log) {
  if (options.kv_spill.empty()) return nullptr;
  const size_t page_bytes = loaded.model->page_memory(PageId{0}).size();
  if (page_bytes == 0) {
    log.warn("KV pages are not spilled: those of {} need more than themselves",
             penstock::to_string(checkpoint.spec.family));
    return nullptr;
  }
  PENSTOCK_ASSIGN(std::string identity, kv_identity(checkpoint, loaded.report));
  auto spill = KvSpill::open({.folder = options.kv_spill,
                              .max_bytes = options.kv_spill_bytes,
                              .page_bytes = page_bytes,
                              .identity = std::move(identity)},
                             log);
  if (spill) return *std::move(spill);
  if (spill.error().kind == ErrorKind::kInvalidArgument) {
    return std::unexpected(spill.error().in("--kv-spill-gib"));
  }
  log.warn("KV pages are not spilled: {}", spill.error().text());
  return nullptr;
}

}  // namespace

Result<EngineModel> start_engine(const ModelOptions& options, const ProgressFn& progress,
                                 const Log& log) {
  PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(options.path));
  PENSTOCK_ASSIGN(TextSetup text, make_text_setup(checkpoint.tokenizer));
  PENSTOCK_ASSIGN(const AnswerFormat answers,
                  choose_answer_format(options.answers, text.template_source, *text.tokenizer));
  PENSTOCK_ASSIGN(LoadedModel loaded, load(checkpoint, options, progress));
  PENSTOCK_ASSIGN(auto spill, open_spill(options, checkpoint, loaded, log));
  std::vector<int32_t> eos_ids = end_ids(checkpoint.generation, text);
  EngineModel model = {.name = checkpoint.name,
                       .engine = Engine::start(std::move(loaded.model), std::move(eos_ids), {}, log,
                                               std::move(spill)),
                       .chat = std::make_shared<const ChatFormatter>(std::move(text), answers),
                       .description = describe(checkpoint, loaded.report)};
  if (loaded.report.prediction) {
    model.planned_tok_s = loaded.report.prediction->decode.tok_s;
  }
  if (loaded.report.is_unverified) {
    model.unverified = checkpoint;
  }
  return model;
}

void warn_of_damage(const Error& damage) {
  fmt::print(stderr, "\nwarning: the pack is damaged, do not trust its answers: {}\n",
             damage.text());
}

}  // namespace penstock
