#include "text/jinja/iterate.h"

#include "text/jinja/unicode.h"

namespace penstock {
namespace {

Result<std::optional<JinjaValue>> next_of(JinjaIterator& iterator) {
  if (iterator.running) return jinja_error("generator already executing");
  iterator.running = true;
  auto item = iterator.next();
  iterator.running = false;
  return item;
}

}  // namespace

bool is_iterable(const JinjaValue& value) {
  return value.is_undefined() || value.is_text() || value.as_sequence() != nullptr ||
         value.is_dict() || value.as_range() != nullptr || value.as_iterator() != nullptr;
}

std::optional<size_t> length_of(const JinjaValue& value) {
  if (value.is_undefined()) return 0;
  if (const JinjaText* text = value.as_text()) return text->length;
  if (const JinjaSequence* sequence = value.as_sequence()) return sequence->items.size();
  if (const JinjaDict* dict = value.as_dict()) return dict->entries.size();
  if (const JinjaRange* range = value.as_range()) return range->length;
  return std::nullopt;
}

Result<std::optional<JinjaValue>> JinjaCursor::next() {
  PENSTOCK_TRY(meter_->step());
  if (const JinjaSequence* sequence = source_.as_sequence()) {
    if (at_ == sequence->items.size()) return std::nullopt;
    return sequence->items[at_++];
  }
  if (const JinjaDict* dict = source_.as_dict()) {
    if (at_ == dict->entries.size()) return std::nullopt;
    return dict->entries[at_++].first;
  }
  if (const JinjaText* text = source_.as_text()) {
    if (at_ == text->bytes.size()) return std::nullopt;
    const size_t begin = at_;
    py_next_character(text->bytes, at_);
    return jinja_text(*meter_, text->bytes.substr(begin, at_ - begin));
  }
  if (const JinjaRange* range = source_.as_range()) {
    if (at_ == range->length) return std::nullopt;
    return JinjaValue(range->at(at_++));
  }
  if (JinjaIterator* iterator = source_.as_iterator()) return next_of(*iterator);
  return std::nullopt;
}

Result<JinjaCursor> iterate(JinjaMeter& meter, const JinjaValue& value) {
  if (!is_iterable(value)) {
    return jinja_error("'{}' object is not iterable", value.type_name());
  }
  return JinjaCursor(meter, value);
}

Result<JinjaValues> items_of(JinjaMeter& meter, const JinjaValue& value) {
  PENSTOCK_ASSIGN(JinjaCursor cursor, iterate(meter, value));
  JinjaValues items;
  if (const auto length = length_of(value)) {
    PENSTOCK_TRY(meter.has_room(*length, sizeof(JinjaValue)));
    items.reserve(*length);
  }
  // What is collected is charged to nobody yet.
  while (true) {
    PENSTOCK_ASSIGN(auto next, cursor.next());
    if (!next) return items;
    if ((items.size() & (items.size() + 1)) == 0) {
      PENSTOCK_TRY(meter.has_room(items.size() + 1, 2 * sizeof(JinjaValue)));
    }
    items.push_back(*std::move(next));
  }
}

}  // namespace penstock
