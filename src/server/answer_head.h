// The parts that every answer of OpenAI's API has, whichever its route.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/output_stream.h"

namespace penstock {

// What all parts of one answer repeat.
struct AnswerHead {
  std::string id = {};  // "chatcmpl-..."
  std::string model = {};
  int64_t created = 0;  // seconds since 1970
};

// `prefix`: "chatcmpl-", before a random id.
AnswerHead make_answer_head(std::string_view prefix, std::string_view model);

// id, object, created, model, system_fingerprint.
OrderedJson head_object(const AnswerHead& head, std::string_view kind);
OrderedJson usage_object(const Usage& usage);

// Text that is not UTF-8 gets U+FFFD: nothing here throws.
std::string dump_answer(const OrderedJson& value);

// A server-sent event.
std::string event(std::string_view data);
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

// Writes the chunks of a streamed answer. One goes out for every token, so what they all repeat is
// put into words once.
class ChunkWriter {
 public:
  // `include_usage`: each chunk has a member for it, as OpenAI's do where it was asked for.
  ChunkWriter(const AnswerHead& head, std::string_view kind, bool include_usage);

  // The event of a chunk with this choice, a JSON object in words.
  std::string chunk(std::string_view choice) const;
  // The last one, with no choice; empty where usage is not included.
  std::string usage_chunk(const Usage& usage) const;

 private:
  std::string begin_;  // up to the choices
  std::string end_;    // after them
  bool include_usage_;
};

}  // namespace penstock
