#include "base/json.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace penstock {
namespace {

// Follows the parser's events to keep depth and duplicate keys within the limits; returning false discards nothing, so
// the first fault is remembered and parsing is stopped by throwing it to parse().
template <class J>
class Bounds {
 public:
  explicit Bounds(JsonLimits limits) : limits_(limits) {}

  bool operator()(int depth, typename J::parse_event_t event, J& value) {
    using Event = typename J::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (static_cast<size_t>(depth) >= limits_.max_depth) {
        throw Error{ErrorKind::kInvalidData,
                    fmt::format("JSON is nested deeper than {} levels", limits_.max_depth)};
      }
      if (event == Event::object_start) objects_.emplace_back();
    } else if (event == Event::object_end) {
      objects_.pop_back();
    } else if (event == Event::key) {
      if (++objects_.back().n_keys > limits_.max_keys) {
        throw Error{ErrorKind::kInvalidData,
                    fmt::format("a JSON object has more than {} keys", limits_.max_keys)};
      }
      if (!limits_.refuse_duplicates) return true;
      const auto& key = value.template get_ref<const std::string&>();
      if (!objects_.back().keys.insert(key).second) {
        throw Error{ErrorKind::kInvalidData, fmt::format("JSON key \"{}\" occurs twice in one object", key)};
      }
    }
    return true;
  }

 private:
  struct Object {
    size_t n_keys = 0;
    std::set<std::string> keys = {};  // filled only to find duplicates
  };
  JsonLimits limits_;
  std::vector<Object> objects_;  // now open
};

std::string where(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const size_t line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? before.size() + 1 : before.size() - start;
  return fmt::format("line {}, column {}", line, column);
}

template <class J>
Result<J> parse(std::string_view text, JsonLimits limits) {
  // The library takes a NUL byte for the end of the text and would not look at what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorKind::kInvalidData, "invalid JSON at {}", where(text, nul + 1));
  }
  try {
    return J::parse(text, Bounds<J>(limits));
  } catch (const Error& error) {
    return std::unexpected(error);
  } catch (const nlohmann::json::parse_error& error) {
    return fail(ErrorKind::kInvalidData, "invalid JSON at {}", where(text, error.byte));
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::kInvalidData, "invalid JSON: {}", error.what());
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) { return parse<Json>(text, limits); }

Result<OrderedJson> parse_ordered_json(std::string_view text, JsonLimits limits) {
  return parse<OrderedJson>(text, limits);
}

}  // namespace penstock
