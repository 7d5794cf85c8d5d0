// The body of POST /v1/completions, checked field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "server/generation_fields.h"

namespace penstock {

// As the client gave it: text, or token ids.
using RawPrompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest : GenerationFields {
  std::vector<RawPrompt> prompts = {};  // at least one
  bool echo = false;                    // the prompt stands before each of its choices
  bool add_special_tokens = true;       // those that the tokenizer puts around a text (BOS)
};

// As read_generation_fields(); kInvalidData where `body` is no JSON.
Result<CompletionRequest> parse_completion_request(std::string_view body);

// The field `name`: a string or ids, or a list of either; at least one of them.
Result<std::vector<RawPrompt>> read_prompts(const JsonFields& fields, std::string_view name);

// The ids of `value`, an array of them; `path` is what errors call it. Whether the model has them
// is not looked at.
Result<std::vector<int32_t>> read_ids(const OrderedJson& value, std::string_view path);

}  // namespace penstock
