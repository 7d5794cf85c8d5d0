// A model on its engine, with its text: what `run`, `chat` and `serve` talk to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "cli/model_options.h"
#include "engine/chat.h"
#include "engine/engine.h"

namespace penstock {

struct EngineModel {
  std::string name = {};
  std::shared_ptr<Engine> engine = {};
  std::shared_ptr<const ChatFormatter> chat = {};
  std::vector<std::string> description = {};  // what was opened and chosen, a line each
  std::optional<double> planned_tok_s = {};   // of a single stream, where there is a plan's
  std::optional<Checkpoint> unverified = {};  // a pack whose checksums nobody has compared yet
};

Result<EngineModel> start_engine(const ModelOptions& options, const ProgressFn& progress,
                                 const Log& log);

// Says it on stderr: for programs that a person watches.
void warn_of_damage(const Error& damage);

}  // namespace penstock
