// The values of a chat template: Python's, as far as a template can tell.
//
// A value is a small handle. Text, sequences and dicts are immutable and shared (the sandbox that
// templates run in refuses every method that would change them); only namespaces, loops and cyclers
// have state, and the render owns those, so that a namespace that holds itself is not leaked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja/meter.h"

namespace penstock {

// Python's integers have no end. These do, and leaving them is an error; 128 bits, because
// templates print JSON's unsigned 64-bit integers and literals a little beyond.
__extension__ typedef __int128 JinjaInt;

class JinjaObject;
class JinjaRender;
class JinjaValue;
struct JinjaDict;
struct JinjaIterator;
struct JinjaRange;
struct JinjaSequence;
struct JinjaText;

struct JinjaUndefined {
  std::shared_ptr<const std::string> why;  // the error that using it gives
};
struct JinjaNone {};

class JinjaValue {
 public:
  using Undefined = JinjaUndefined;
  using Text = std::shared_ptr<const JinjaText>;
  using Sequence = std::shared_ptr<const JinjaSequence>;
  using Dict = std::shared_ptr<const JinjaDict>;
  using Range = std::shared_ptr<const JinjaRange>;
  using Iterator = std::shared_ptr<JinjaIterator>;
  using Object = std::shared_ptr<JinjaObject>;

  JinjaValue() : held_(JinjaNone{}) {}
  explicit JinjaValue(bool value) : held_(value) {}
  explicit JinjaValue(JinjaInt value) : held_(value) {}
  explicit JinjaValue(double value) : held_(value) {}
  explicit JinjaValue(Text value) : held_(std::move(value)) {}
  explicit JinjaValue(Sequence value) : held_(std::move(value)) {}
  explicit JinjaValue(Dict value) : held_(std::move(value)) {}
  explicit JinjaValue(Range value) : held_(std::move(value)) {}
  explicit JinjaValue(Iterator value) : held_(std::move(value)) {}
  explicit JinjaValue(Object value) : held_(std::move(value)) {}

  // Defined once in value.cc: inlined into every caller they are most of its code, and g++ 12 finds
  // uninitialised members in them that are not.
  JinjaValue(const JinjaValue& other);
  JinjaValue(JinjaValue&& other) noexcept;
  JinjaValue& operator=(const JinjaValue& other);
  JinjaValue& operator=(JinjaValue&& other) noexcept;
  ~JinjaValue();

  static JinjaValue undefined(std::string why);
  static JinjaValue integer(size_t value) { return JinjaValue(static_cast<JinjaInt>(value)); }

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<JinjaNone>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<JinjaInt>(); }  // not a bool, unlike Python's isinstance
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_text() const { return holds<Text>(); }
  bool is_dict() const { return holds<Dict>(); }

  // Null when it is of another kind.
  const bool* as_bool() const { return std::get_if<bool>(&held_); }
  const JinjaInt* as_int() const { return std::get_if<JinjaInt>(&held_); }
  const double* as_float() const { return std::get_if<double>(&held_); }
  const JinjaText* as_text() const { return pointee<Text>(); }
  const JinjaSequence* as_sequence() const { return pointee<Sequence>(); }
  const JinjaDict* as_dict() const { return pointee<Dict>(); }
  const JinjaRange* as_range() const { return pointee<Range>(); }
  JinjaIterator* as_iterator() const { return pointee<Iterator>(); }
  JinjaObject* as_object() const { return pointee<Object>(); }

  // The integer in an int or a bool, as Python counts a bool as one.
  std::optional<JinjaInt> integral() const;
  std::optional<double> number() const;  // any number, widened
  bool is_list() const;
  bool is_tuple() const;

  // Why an undefined value is undefined.
  const std::string& why() const { return *std::get<Undefined>(held_).why; }

  // The very same object, as Python's `is`.
  bool same_as(const JinjaValue& other) const;
  bool truth() const;
  size_t depth() const;
  // Python's name of the type: "str", "NoneType", "list", ...
  std::string_view type_name() const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(held_);
  }
  template <class Pointer>
  typename Pointer::element_type* pointee() const {
    const auto* held = std::get_if<Pointer>(&held_);
    return held == nullptr ? nullptr : held->get();
  }

  std::variant<Undefined, JinjaNone, bool, JinjaInt, double, Text, Sequence, Dict, Range, Iterator,
               Object>
      held_;
};

using JinjaValues = std::vector<JinjaValue>;

struct JinjaText {
  JinjaText(std::string text, bool is_safe, JinjaCharge paid);

  std::string bytes;  // UTF-8
  size_t length = 0;  // in characters
  bool safe = false;  // Markup in Python: the filter `safe` made it, and adding to it escapes
  JinjaCharge charge;

  bool is_ascii() const { return length == bytes.size(); }
};

enum class JinjaSequenceKind { kList, kTuple, kGroup, kDictKeys, kDictValues, kDictItems };

struct JinjaSequence {
  JinjaSequenceKind kind = JinjaSequenceKind::kList;
  JinjaValues items;
  size_t depth = 1;
  JinjaCharge charge;
};

// Keeps the order of insertion. Keys are hashable values: see hashable(). Filled while it is being
// made.
struct JinjaDict {
  std::vector<std::pair<JinjaValue, JinjaValue>> entries;
  std::unordered_multimap<size_t, uint32_t> index;  // hash of a key to its entry
  size_t depth = 1;
  JinjaCharge charge;

  const JinjaValue* find(const JinjaValue& key) const;
  const JinjaValue* find(std::string_view key) const;
  void set(JinjaValue key, JinjaValue value);

 private:
  std::optional<size_t> find_entry(const JinjaValue& key) const;
};

struct JinjaRange {
  JinjaInt start = 0, stop = 0, step = 1;
  size_t length = 0;

  JinjaInt at(size_t index) const { return start + static_cast<JinjaInt>(index) * step; }
  bool contains(JinjaInt value) const;
};

// What Python calls a generator: computed as it is asked for, and only once.
struct JinjaIterator {
  std::function<Result<std::optional<JinjaValue>>()> next;
  std::string_view type_name = "generator";
  size_t depth = 1;
  bool running = false;  // asking it again from inside is an error
  JinjaCharge charge;
};

struct JinjaArgs {
  JinjaValues positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

// Everything with behaviour: functions, macros, namespaces, loops.
class JinjaObject {
 public:
  virtual ~JinjaObject() = default;
  virtual std::string_view type_name() const = 0;
  virtual Result<std::string> repr(JinjaMeter& meter) const;
  virtual bool is_callable() const { return false; }
  virtual Result<JinjaValue> call(JinjaRender& render, const JinjaArgs& args);
  // Nothing when it has no such attribute.
  virtual Result<std::optional<JinjaValue>> attribute(JinjaRender& render, std::string_view name);
  virtual size_t depth() const { return 1; }
};

// An error in the template or in what it was given; the line is added where the render ends.
template <class... Args>
std::unexpected<Error> jinja_error(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorKind::kInvalidData, format, std::forward<Args>(args)...);
}

JinjaValue jinja_text(JinjaMeter& meter, std::string text, bool safe = false);
JinjaValue jinja_sequence(JinjaMeter& meter, JinjaSequenceKind kind, JinjaValues items);
JinjaValue jinja_list(JinjaMeter& meter, JinjaValues items);
JinjaValue jinja_tuple(JinjaMeter& meter, JinjaValues items);
JinjaValue jinja_dict(JinjaMeter& meter, JinjaDict dict);
JinjaValue jinja_iterator(JinjaMeter& meter, size_t depth_of_sources,
                          std::function<Result<std::optional<JinjaValue>>()> next,
                          std::string_view type_name = "generator");

// Literals of the parsed template, shared by every render and charged to none.
JinjaValue jinja_literal(std::string text);

// The text of a str, or nothing.
inline std::optional<std::string_view> text_of(const JinjaValue& value) {
  const JinjaText* text = value.as_text();
  if (text == nullptr) return std::nullopt;
  return text->bytes;
}

// Refuses keys that Python cannot hash: lists, dicts and what contains them.
Result<void> hashable(const JinjaValue& value);
size_t hash_of(const JinjaValue& value);

}  // namespace penstock
