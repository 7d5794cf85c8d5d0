#include "text/jinja/value.h"

#include <cmath>
#include <limits>

#include "text/jinja/compare.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

size_t mixed(size_t seed, size_t hash) {
  return seed ^ (hash + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

size_t deepest_of(const JinjaValues& items) {
  size_t deepest = 0;
  for (const JinjaValue& item : items) deepest = std::max(deepest, item.depth());
  return deepest;
}

// A tuple as a key is hashed and compared part by part, and parts may be shared: bounding them
// bounds the work of every later look-up.
constexpr size_t kMaxKeyParts = 1000;

Result<void> hashable_within(const JinjaValue& value, size_t& budget) {
  if (budget-- == 0) return jinja_error("a key of more than {} parts", kMaxKeyParts);
  const JinjaSequence* sequence = value.as_sequence();
  if (value.is_dict() || (sequence != nullptr && !value.is_tuple())) {
    return jinja_error("unhashable type: '{}'", value.type_name());
  }
  if (sequence != nullptr) {
    for (const JinjaValue& item : sequence->items) PENSTOCK_TRY(hashable_within(item, budget));
  }
  return {};
}

}  // namespace

JinjaValue::JinjaValue(const JinjaValue& other) = default;
JinjaValue::JinjaValue(JinjaValue&& other) noexcept = default;
JinjaValue& JinjaValue::operator=(const JinjaValue& other) = default;
JinjaValue& JinjaValue::operator=(JinjaValue&& other) noexcept = default;
JinjaValue::~JinjaValue() = default;

JinjaValue JinjaValue::undefined(std::string why) {
  JinjaValue value;
  value.held_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

std::optional<JinjaInt> JinjaValue::integral() const {
  if (const JinjaInt* integer = as_int()) return *integer;
  if (const bool* flag = as_bool()) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> JinjaValue::number() const {
  if (const double* real = as_float()) return *real;
  if (const auto integer = integral()) return static_cast<double>(*integer);
  return std::nullopt;
}

bool JinjaValue::is_list() const {
  const JinjaSequence* sequence = as_sequence();
  return sequence != nullptr && sequence->kind == JinjaSequenceKind::kList;
}

bool JinjaValue::is_tuple() const {
  const JinjaSequence* sequence = as_sequence();
  return sequence != nullptr && (sequence->kind == JinjaSequenceKind::kTuple ||
                                 sequence->kind == JinjaSequenceKind::kGroup);
}

bool JinjaValue::same_as(const JinjaValue& other) const {
  if (held_.index() != other.held_.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using Held = std::decay_t<decltype(mine)>;
        const auto& theirs = std::get<Held>(other.held_);
        if constexpr (std::is_same_v<Held, JinjaNone>) {
          return true;
        } else if constexpr (std::is_same_v<Held, Undefined>) {
          return mine.why == theirs.why;
        } else {
          return mine == theirs;
        }
      },
      held_);
}

bool JinjaValue::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* flag = as_bool()) return *flag;
  if (const JinjaInt* integer = as_int()) return *integer != 0;
  if (const double* real = as_float()) return *real != 0.0;
  if (const JinjaText* text = as_text()) return !text->bytes.empty();
  if (const JinjaSequence* sequence = as_sequence()) return !sequence->items.empty();
  if (const JinjaDict* dict = as_dict()) return !dict->entries.empty();
  if (const JinjaRange* range = as_range()) return range->length != 0;
  return true;
}

size_t JinjaValue::depth() const {
  if (const JinjaSequence* sequence = as_sequence()) return sequence->depth;
  if (const JinjaDict* dict = as_dict()) return dict->depth;
  if (const JinjaIterator* iterator = as_iterator()) return iterator->depth;
  if (const JinjaObject* object = as_object()) return object->depth();
  return 0;
}

std::string_view JinjaValue::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (const JinjaText* text = as_text()) return text->safe ? "Markup" : "str";
  if (is_dict()) return "dict";
  if (as_range() != nullptr) return "range";
  if (const JinjaIterator* iterator = as_iterator()) return iterator->type_name;
  if (const JinjaObject* object = as_object()) return object->type_name();
  switch (as_sequence()->kind) {
    case JinjaSequenceKind::kList:
      return "list";
    case JinjaSequenceKind::kTuple:
      return "tuple";
    case JinjaSequenceKind::kGroup:
      return "_GroupTuple";
    case JinjaSequenceKind::kDictKeys:
      return "dict_keys";
    case JinjaSequenceKind::kDictValues:
      return "dict_values";
    case JinjaSequenceKind::kDictItems:
      return "dict_items";
  }
  return "";
}

JinjaText::JinjaText(std::string text, bool is_safe, JinjaCharge paid)
    : bytes(std::move(text)),
      length(py_count_characters(bytes)),
      safe(is_safe),
      charge(std::move(paid)) {}

const JinjaValue* JinjaDict::find(const JinjaValue& key) const {
  const auto entry = find_entry(key);
  return entry ? &entries[*entry].second : nullptr;
}

const JinjaValue* JinjaDict::find(std::string_view key) const {
  const auto [begin, end] = index.equal_range(std::hash<std::string_view>()(key));
  for (auto at = begin; at != end; ++at) {
    const auto& [entry_key, entry_value] = entries[at->second];
    if (text_of(entry_key) == key) return &entry_value;
  }
  return nullptr;
}

void JinjaDict::set(JinjaValue key, JinjaValue value) {
  if (const auto entry = find_entry(key)) {
    entries[*entry].second = std::move(value);
    return;
  }
  index.emplace(hash_of(key), static_cast<uint32_t>(entries.size()));
  entries.emplace_back(std::move(key), std::move(value));
}

std::optional<size_t> JinjaDict::find_entry(const JinjaValue& key) const {
  const auto [begin, end] = index.equal_range(hash_of(key));
  for (auto at = begin; at != end; ++at) {
    if (equal_keys(entries[at->second].first, key)) return at->second;
  }
  return std::nullopt;
}

bool JinjaRange::contains(JinjaInt value) const {
  if (length == 0) return false;
  const JinjaInt offset = value - start;
  return offset % step == 0 && offset / step >= 0 && offset / step < static_cast<JinjaInt>(length);
}

Result<std::string> JinjaObject::repr(JinjaMeter& /*meter*/) const {
  return fmt::format("<{}>", type_name());
}

Result<JinjaValue> JinjaObject::call(JinjaRender& /*render*/, const JinjaArgs& /*args*/) {
  return jinja_error("'{}' object is not callable", type_name());
}

Result<std::optional<JinjaValue>> JinjaObject::attribute(JinjaRender& /*render*/,
                                                         std::string_view /*name*/) {
  return std::nullopt;
}

JinjaValue jinja_text(JinjaMeter& meter, std::string text, bool safe) {
  JinjaCharge charge = meter.charge(sizeof(JinjaText) + text.capacity());
  return JinjaValue(std::make_shared<const JinjaText>(std::move(text), safe, std::move(charge)));
}

JinjaValue jinja_literal(std::string text) {
  return JinjaValue(std::make_shared<const JinjaText>(std::move(text), false, JinjaCharge()));
}

JinjaValue jinja_sequence(JinjaMeter& meter, JinjaSequenceKind kind, JinjaValues items) {
  const size_t depth = meter.depth_around(deepest_of(items));
  JinjaCharge charge = meter.charge(sizeof(JinjaSequence) + items.capacity() * sizeof(JinjaValue));
  return JinjaValue(
      std::make_shared<const JinjaSequence>(kind, std::move(items), depth, std::move(charge)));
}

JinjaValue jinja_list(JinjaMeter& meter, JinjaValues items) {
  return jinja_sequence(meter, JinjaSequenceKind::kList, std::move(items));
}

JinjaValue jinja_tuple(JinjaMeter& meter, JinjaValues items) {
  return jinja_sequence(meter, JinjaSequenceKind::kTuple, std::move(items));
}

JinjaValue jinja_dict(JinjaMeter& meter, JinjaDict dict) {
  size_t deepest = 0;
  for (const auto& [key, value] : dict.entries) {
    deepest = std::max({deepest, key.depth(), value.depth()});
  }
  // An entry and its node in the index.
  constexpr size_t kBytesPerEntry = 2 * sizeof(JinjaValue) + 6 * sizeof(void*);
  dict.depth = meter.depth_around(deepest);
  dict.charge = meter.charge(sizeof(JinjaDict) + dict.entries.size() * kBytesPerEntry);
  return JinjaValue(std::make_shared<const JinjaDict>(std::move(dict)));
}

JinjaValue jinja_iterator(JinjaMeter& meter, size_t depth_of_sources,
                          std::function<Result<std::optional<JinjaValue>>()> next,
                          std::string_view type_name) {
  constexpr size_t kBytesOfCapture = 256;
  return JinjaValue(std::make_shared<JinjaIterator>(
      std::move(next), type_name, meter.depth_around(depth_of_sources), false,
      meter.charge(sizeof(JinjaIterator) + kBytesOfCapture)));
}

Result<void> hashable(const JinjaValue& value) {
  size_t budget = kMaxKeyParts;
  return hashable_within(value, budget);
}

size_t hash_of(const JinjaValue& value) {
  if (const auto text = text_of(value)) return std::hash<std::string_view>()(*text);
  // Numbers that are equal hash equally, whatever their type.
  if (const auto number = value.number()) return std::hash<double>()(*number);
  if (const JinjaSequence* sequence = value.as_sequence()) {
    size_t hash = sequence->items.size();
    for (const JinjaValue& item : sequence->items) hash = mixed(hash, hash_of(item));
    return hash;
  }
  if (const JinjaObject* object = value.as_object()) return std::hash<const void*>()(object);
  return value.is_none() ? 1 : 2;
}

}  // namespace penstock
