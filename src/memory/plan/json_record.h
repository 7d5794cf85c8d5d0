// Structs as JSON objects that people write by hand and programs read back: each struct lists its
// fields once, for both directions. What is wrong is said with the field's path; a field that
// nobody knows is refused by name.
//
//   template <class Self, class Visit>
//   void Thing::visit_fields(Self& self, Visit& visit) {  // static
//     visit("bytes", self.bytes);  // missing: keeps its default; optionals may be null
//     visit.required("cores", self.n_cores);
//   }
//
// uint64_t is a size: a number of bytes, or text like "94 GiB". int and int64_t are counts, not
// negative. double is a rate, above 0.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/units.h"

namespace penstock {

inline constexpr uint64_t kMostRecordBytes = uint64_t{1} << 50;  // so that sums cannot overflow
inline constexpr double kMostRecordRate = 1e9;

class RecordWriter {
 public:
  template <class T>
  void operator()(std::string_view name, const T& value) {
    json_[std::string(name)] = encode(value);
  }
  template <class T>
  void required(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  OrderedJson take() { return std::move(json_); }

  template <class T>
  static OrderedJson encode(const T& value) {
    if constexpr (requires(RecordWriter& writer) { T::visit_fields(value, writer); }) {
      RecordWriter writer;
      T::visit_fields(value, writer);
      return writer.take();
    } else {
      return value;
    }
  }
  template <class T>
  static OrderedJson encode(const std::optional<T>& value) {
    return value ? encode(*value) : OrderedJson();
  }
  template <class T>
  static OrderedJson encode(const std::vector<T>& values) {
    OrderedJson array = OrderedJson::array();
    for (const T& value : values) array.push_back(encode(value));
    return array;
  }
  static OrderedJson encode(const std::map<std::string, double>& values) {
    OrderedJson object = OrderedJson::object();
    for (const auto& [name, value] : values) object[name] = value;
    return object;
  }

 private:
  OrderedJson json_ = OrderedJson::object();
};

// Fills one record from an object. Keeps the first error.
class RecordReader {
 public:
  // `what` begins every message ("machine description"); `path` is this record's place in it.
  RecordReader(const Json& json, std::string_view what, std::string path)
      : json_(json), what_(what), path_(std::move(path)) {
    if (!json.is_object()) done_ = wrong_type(path_.empty() ? "the whole" : path_, "an object");
  }

  template <class T>
  void operator()(std::string_view name, T& field) {
    known_.push_back(name);
    if (!done_) return;
    if (const auto found = json_.find(name); found != json_.end()) {
      done_ = RecordReader(*found, what_, path_of(name), kValue).decode(field);
    }
  }
  template <class T>
  void required(std::string_view name, T& field) {
    if (done_ && !json_.contains(name)) {
      done_ = fail(ErrorKind::kInvalidData, "{}: {} is missing", what_, path_of(name));
    }
    (*this)(name, field);
  }

  // After all fields.
  Result<void> finish() const {
    if (!done_) return done_;
    for (const auto& [name, value] : json_.items()) {
      if (std::ranges::find(known_, name) != known_.end()) continue;
      return fail(ErrorKind::kInvalidData, "{}: there is no field {}; there are: {}", what_,
                  path_of(name), fmt::join(known_, ", "));
    }
    return {};
  }

 private:
  enum Value { kValue };
  RecordReader(const Json& json, std::string_view what, std::string path, Value /*any*/)
      : json_(json), what_(what), path_(std::move(path)) {}

  std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }
  std::unexpected<Error> wrong_type(std::string_view path, std::string_view expected) const {
    constexpr size_t kShown = 40;  // characters of what was found instead
    std::string found = json_.dump(-1, ' ', /*ensure_ascii=*/true);
    if (found.size() > kShown) found = found.substr(0, kShown) + "...";
    return fail(ErrorKind::kInvalidData, "{}: {} is {}, expected {}", what_, path, found, expected);
  }

  Result<void> decode(std::string& out) const {
    if (!json_.is_string()) return wrong_type(path_, "text");
    out = json_.get<std::string>();
    return {};
  }
  Result<void> decode(uint64_t& out) const {
    constexpr std::string_view kExpected =
        "a size of at most 1 PiB: bytes, or text like \"94 GiB\"";
    std::optional<uint64_t> bytes;
    if (json_.is_number_unsigned()) bytes = json_.get<uint64_t>();
    if (json_.is_string()) {
      if (const auto size = parse_bytes(json_.get_ref<const std::string&>())) bytes = *size;
    }
    if (!bytes || *bytes > kMostRecordBytes) return wrong_type(path_, kExpected);
    out = *bytes;
    return {};
  }
  template <class T>
    requires std::same_as<T, int> || std::same_as<T, int64_t>
  Result<void> decode(T& out) const {
    if (!json_.is_number_unsigned() || !std::in_range<T>(json_.get<uint64_t>())) {
      return wrong_type(path_, "a whole number, 0 or more");
    }
    out = json_.get<T>();
    return {};
  }
  Result<void> decode(double& out) const {
    const double value = json_.is_number() ? json_.get<double>() : 0;
    if (!(value > 0) || value > kMostRecordRate) return wrong_type(path_, "a number above 0");
    out = value;
    return {};
  }
  Result<void> decode(std::map<std::string, double>& out) const {
    if (!json_.is_object()) return wrong_type(path_, "an object of numbers");
    out.clear();
    for (const auto& [name, value] : json_.items()) {
      PENSTOCK_TRY(RecordReader(value, what_, path_of(name), kValue).decode(out[name]));
    }
    return {};
  }
  template <class T>
  Result<void> decode(std::optional<T>& out) const {
    if (json_.is_null()) {
      out.reset();
      return {};
    }
    return decode(out.emplace());
  }
  template <class T>
  Result<void> decode(std::vector<T>& out) const {
    if (!json_.is_array()) return wrong_type(path_, "a list");
    out.clear();
    for (const Json& element : json_) {
      const std::string path = fmt::format("{}[{}]", path_, out.size());
      PENSTOCK_TRY(RecordReader(element, what_, path, kValue).decode(out.emplace_back()));
    }
    return {};
  }
  template <class T>
    requires std::is_class_v<T>
  Result<void> decode(T& out) const {
    RecordReader reader(json_, what_, path_);
    T::visit_fields(out, reader);
    return reader.finish();
  }

  const Json& json_;
  std::string_view what_;
  std::string path_;
  std::vector<std::string_view> known_ = {};
  Result<void> done_ = {};
};

template <class T>
OrderedJson record_to_json(const T& record) {
  return RecordWriter::encode(record);
}

template <class T>
Result<T> record_from_json(const Json& json, std::string_view what) {
  T record;
  RecordReader reader(json, what, "");
  T::visit_fields(record, reader);
  PENSTOCK_TRY(reader.finish());
  return record;
}

}  // namespace penstock
