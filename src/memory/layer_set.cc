#include "memory/layer_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace penstock {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// All of `text` as a number; nothing where it is none, is negative or fits no int.
std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0) return std::nullopt;
  return number;
}

std::optional<double> fraction(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (!std::isfinite(number) || std::signbit(number)) return std::nullopt;
  return number;
}

// Reads one flag's value into a set.
class Selector {
 public:
  Selector(int n_layers, std::string_view flag, std::string_view text)
      : selection_{.layers = LayerSet(n_layers)}, flag_(flag), text_(text) {}

  Result<LayerSelection> read();

 private:
  std::unexpected<Error> refused() const;
  int n_layers() const { return selection_.layers.n_layers(); }
  void spread(int count);
  void add_clamped(int64_t begin, int64_t end);
  void warn_beyond();
  Result<void> read_item(std::string_view item);

  LayerSelection selection_;
  std::string_view flag_;
  std::string_view text_;
};

Result<LayerSelection> Selector::read() {
  const std::string_view text = trimmed(text_);
  if (text.find(',') == std::string_view::npos) {
    if (const auto count = whole_number(text)) {
      if (*count > n_layers()) warn_beyond();
      spread(std::min(*count, n_layers()));
      return selection_;
    }
    if (const auto part =
            text.find('.') == std::string_view::npos ? std::nullopt : fraction(text)) {
      if (*part > 1) warn_beyond();
      // A part of a layer is a whole one where it would otherwise be none.
      const auto count = std::lround(std::min(*part, 1.0) * n_layers());
      spread(std::min(n_layers(), std::max(static_cast<int>(count), *part > 0 ? 1 : 0)));
      return selection_;
    }
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    PENSTOCK_TRY(read_item(trimmed(text.substr(begin, end - begin))));
    begin = end + 1;
  }
  if (text.empty()) return refused();
  return selection_;
}

Result<void> Selector::read_item(std::string_view item) {
  const size_t colon = item.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view side = item.substr(0, colon);
    const auto count = whole_number(item.substr(colon + 1));
    if (!count || (side != "head" && side != "tail")) return refused();
    if (side == "head") {
      add_clamped(0, *count);
    } else {
      if (*count > n_layers()) warn_beyond();
      add_clamped(std::max(0, n_layers() - *count), n_layers());
    }
    return {};
  }
  const size_t dash = item.find('-');
  const auto first = whole_number(item.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : whole_number(item.substr(dash + 1));
  if (!first || !last || *last < *first) return refused();
  add_clamped(*first, int64_t{*last} + 1);
  return {};
}

void Selector::add_clamped(int64_t begin, int64_t end) {
  if (end > n_layers()) warn_beyond();
  selection_.layers.add(static_cast<int>(std::min<int64_t>(begin, n_layers())),
                        static_cast<int>(std::min<int64_t>(end, n_layers())));
}

// The middles of `count` equal parts.
void Selector::spread(int count) {
  for (int64_t i = 0; i < count; ++i) {
    selection_.layers.add(static_cast<int>((2 * i + 1) * n_layers() / (2 * int64_t{count})));
  }
}

void Selector::warn_beyond() {
  selection_.warning =
      fmt::format("{} {} chooses more than there is: the model has {} layers, 0-{}", flag_, text_,
                  n_layers(), n_layers() - 1);
}

std::unexpected<Error> Selector::refused() const {
  return fail(ErrorKind::kInvalidArgument,
              "{} \"{}\" chooses no layers: expected ids (3,7,11), ranges (0-5), head:4 or tail:4, "
              "with commas between, or alone a count (8) or a part (0.25) of the layers",
              flag_, text_);
}

}  // namespace

int LayerSet::count() const {
  return static_cast<int>(std::count(chosen_.begin(), chosen_.end(), true));
}

void LayerSet::add(int begin, int end) {
  for (int layer = begin; layer < end; ++layer) add(layer);
}

std::string LayerSet::text() const {
  std::string text;
  for (int begin = 0; begin < n_layers(); ++begin) {
    if (!contains(begin)) continue;
    int last = begin;
    while (last + 1 < n_layers() && contains(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += last > begin ? fmt::format("{}-{}", begin, last) : fmt::format("{}", begin);
    begin = last;
  }
  if (count() == 0) return "0";
  return count() == 1 ? text + ',' : text;
}

Result<LayerSelection> select_layers(std::string_view text, int n_layers, std::string_view flag) {
  return Selector(n_layers, flag, text).read();
}

Result<void> check_disjoint(const LayerSet& layers, std::string_view flag, const LayerSet& others,
                            std::string_view other_flag) {
  LayerSet both(layers.n_layers());
  for (int layer = 0; layer < layers.n_layers(); ++layer) {
    if (layers.contains(layer) && others.contains(layer)) both.add(layer);
  }
  if (both.count() == 0) return {};
  return fail(ErrorKind::kInvalidArgument, "{} and {} both choose layers {}: leave them out of one",
              flag, other_flag, both.text());
}

}  // namespace penstock
