// Fields of a Hugging Face config.json, read with types and under all their spellings. Errors name
// the field, what it holds and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

// A view of one or two objects: fields of `inner` win over those of `outer`, as those of
// text_config do over the whole file's. A field that is null counts as absent. The objects outlive
// the view.
class HfFields {
 public:
  using Names = std::initializer_list<std::string_view>;  // the first that is there counts

  explicit HfFields(const Json& inner, const Json* outer = nullptr)
      : inner_(inner), outer_(outer) {}

  const Json* find(Names names) const;  // nullptr: absent

  bool is_null(std::string_view name) const;  // there, but null

  // nullopt where none of the names is there.
  Result<std::optional<int64_t>> integer(Names names, int64_t low, int64_t high) const;
  Result<std::optional<double>> number(Names names) const;
  Result<std::optional<bool>> boolean(Names names) const;
  Result<std::optional<std::string>> string(Names names) const;
  Result<std::optional<std::vector<std::string>>> strings(Names names) const;
  // Empty where none of the names is there. One number counts as a list of one.
  Result<std::vector<double>> numbers(Names names) const;
  Result<std::vector<int64_t>> integers(Names names) const;

 private:
  struct Found {
    std::string_view name = {};
    const Json* value = nullptr;
  };
  Found look_up(Names names) const;

  const Json& inner_;
  const Json* outer_;
};

}  // namespace penstock
