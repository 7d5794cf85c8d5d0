// What the bodies of chat and plain completions have in common, checked field by field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "engine/json_fields.h"
#include "engine/request.h"

namespace penstock {

inline constexpr int64_t kMaxChoices = 128;  // OpenAI's own bound of `n`

struct GenerationFields {
  std::string model = {};             // empty: whichever is served
  GenerationRequest generation = {};  // without its prompt; the seed is `seed`'s
  std::optional<uint64_t> seed = {};  // absent: the server draws one
  int64_t n = 1;                      // choices for each prompt, [1, kMaxChoices]
  bool stream = false;
  bool include_usage = false;
};

// A request's body: an object. Its keys are bounded in number, for each lookup goes through all.
Result<OrderedJson> parse_request_body(std::string_view body);

// Unknown fields are ignored; null means absent. An error names the field in its message and in
// Error::param.
Result<GenerationFields> read_generation_fields(const JsonFields& fields);

// kUnsupported: for what exists in OpenAI's API and is not served here, for it must not be ignored
// in silence. "suffix is not supported yet".
std::unexpected<Error> not_yet(std::string_view field, std::string_view what = {});

// The seed of choice `index` of a prompt: the request's own for the first, so that n=1 is what the
// first of several is.
uint64_t choice_seed(uint64_t seed, size_t index);
uint64_t random_seed();

}  // namespace penstock
