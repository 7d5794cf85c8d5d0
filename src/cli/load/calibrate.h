// Finds out how a server counts the words of our prompts.
#pragma once

#include <optional>

#include "cli/client/blocking_client.h"
#include "cli/load/load_run.h"
#include "cli/load/prompts.h"

namespace penstock {

// From the usage of two short answers, so that the chat template counts too; from /tokenize where
// the server tells no usage; nullopt where it has neither. Errors are those of the answers: a
// server that gives none cannot be measured.
Result<std::optional<PromptSizing>> calibrate(BlockingClient& client, const LoadTarget& target,
                                              uint64_t seed);

}  // namespace penstock
