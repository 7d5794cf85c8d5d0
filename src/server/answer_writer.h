// What an answer looks like: from what the engine says of each choice to the bytes a client gets.
// Each route has two, one for streams of events and one for whole bodies.
#pragma once

#include <cstddef>
#include <string>

#include "engine/output_stream.h"

namespace penstock {

// One thread at a time. For a stream, the strings are server-sent events, each whole ("data:
// ...\n\n"), any number of them. For a whole answer only end() has one: the body.
class AnswerWriter {
 public:
  AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;
  virtual ~AnswerWriter() = default;

  // What comes before the first update.
  virtual std::string begin() = 0;
  // `choice` said this; an update's end is never an error here.
  virtual std::string push(size_t choice, const OutputUpdate& update) = 0;
  // `choice` has all it may have, though its output goes on: that ends it.
  virtual bool is_satisfied([[maybe_unused]] size_t choice) const { return false; }
  // After every choice's end. `usage`: of all choices, with each prompt once.
  virtual std::string end(const Usage& usage) = 0;
};

}  // namespace penstock
