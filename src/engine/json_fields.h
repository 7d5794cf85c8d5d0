// Reading the fields of JSON from a client: types checked, null taken as absent, errors that name
// the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

// An error about `field`, whose message begins with its name.
std::unexpected<Error> refuse_field(ErrorKind kind, std::string_view field,
                                    std::string_view complaint);

// kInvalidArgument: "temperature must be a number, but is string".
std::unexpected<Error> wrong_type(std::string_view field, std::string_view expected,
                                  const OrderedJson& found);

class JsonFields {
 public:
  // `object` must be one, and outlive this. `prefix` goes before names in errors
  // ("stream_options.").
  explicit JsonFields(const OrderedJson& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // Null where the field is absent or null.
  const OrderedJson* find(std::string_view name) const;

  Result<std::optional<bool>> flag(std::string_view name) const;
  Result<std::optional<double>> number(std::string_view name) const;
  // Also a float without a fraction (1e9). What is beyond int64 becomes its nearest end.
  Result<std::optional<int64_t>> integer(std::string_view name) const;
  Result<std::optional<std::string>> text(std::string_view name) const;
  // A string, or an array of strings; empty when absent.
  Result<std::vector<std::string>> texts(std::string_view name) const;
  Result<std::vector<int64_t>> integers(std::string_view name) const;
  Result<const OrderedJson*> object(std::string_view name) const;

  std::string path(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const OrderedJson& object_;
  std::string prefix_;
};

}  // namespace penstock
