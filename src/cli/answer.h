// Streams one answer to standard output.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/output_stream.h"
#include "text/tokenizer.h"

namespace penstock {

struct Answer {
  std::string text = {};
  OutputEnd end = {};
  double first_seconds = 0;  // until its first piece
  double seconds = 0;        // until its end

  // "37 tokens in, 12 out in 0.4 s (31.2 tok/s after the first)"
  std::string speed() const;
};

// Shows the text as it comes; Ctrl-C ends the answer, not the program.
Result<Answer> stream_answer(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request);

}  // namespace penstock
