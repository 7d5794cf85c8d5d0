#include "cli/engine_model.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace penstock {

Result<EngineModel> start_engine(const ModelOptions& options, const ProgressFn& progress,
                                 const Log& log) {
  PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(options.path));
  PENSTOCK_ASSIGN(TextSetup text, make_text_setup(checkpoint.tokenizer));
  PENSTOCK_ASSIGN(const AnswerFormat answers,
                  choose_answer_format(options.answers, text.template_source, *text.tokenizer));
  PENSTOCK_ASSIGN(LoadedModel loaded, load(checkpoint, options, progress));
  std::vector<int32_t> eos_ids = end_ids(checkpoint.generation, text);
  EngineModel model = {
      .name = checkpoint.name,
      .engine = Engine::start(std::move(loaded.model), std::move(eos_ids), {}, log),
      .chat = std::make_shared<const ChatFormatter>(std::move(text), answers),
      .description = describe(checkpoint, loaded.report)};
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
