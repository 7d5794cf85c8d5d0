// Metadata of a GGUF file, read with types: each error names the key, what it holds and what was
// expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

// A view: `json` is GgufHeader::metadata and outlives it.
class GgufMetadata {
 public:
  explicit GgufMetadata(const Json& json) : json_(json) {}

  bool contains(std::string_view key) const { return json_.contains(key); }

  // nullopt where the key is absent. Any integer type of the file will do, if the value is in
  // [low, high].
  Result<std::optional<int64_t>> integer(std::string_view key, int64_t low, int64_t high) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;

  // As integer(), but the value may also be a list with one for each layer, which must all be
  // equal.
  Result<std::optional<int64_t>> integer_of_all_layers(std::string_view key, int64_t low,
                                                       int64_t high) const;

  // The keys that begin with `prefix`, without it; null when there is none.
  Json below(std::string_view prefix) const;

 private:
  const Json& json_;
};

}  // namespace penstock
