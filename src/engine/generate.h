// One request from start to end on the caller's thread: what the command line needs.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/output_stream.h"

namespace penstock {

// Hands each piece of the answer to `show` as it comes, and an empty one every 50 ms in which none
// does, as in a long prefill; once that has returned false, the answer ends as aborted.
Result<OutputEnd> generate(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                           const std::function<bool(std::string_view piece)>& show);

}  // namespace penstock
