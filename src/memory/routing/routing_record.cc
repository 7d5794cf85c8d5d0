#include "memory/routing/routing_record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/units.h"
#include "os/file.h"

namespace penstock {
namespace {

constexpr int kVersion = 1;
constexpr std::string_view kVersionField = "penstock_routing";
// Far beyond any model or recording, and small enough that no file makes us take much memory.
constexpr int kMostLayers = 4096;
constexpr int kMostExperts = 65'536;
constexpr int64_t kMostExpertsOfAllLayers = 1 << 20;
constexpr int64_t kMostTokens = 1 << 24;
constexpr uint64_t kMostBytes = 512 * kMiB;
constexpr JsonLimits kLimits = {.max_depth = 3, .refuse_duplicates = true, .max_keys = 8};

Result<int64_t> integer_in(const Json& json, std::string_view what, int64_t least, int64_t most) {
  // What does not fit 63 bits is read as unsigned.
  const bool is_huge = json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(INT64_MAX);
  if (json.is_number_integer() && !is_huge) {
    const auto value = json.get<int64_t>();
    if (least <= value && value <= most) return value;
  }
  constexpr size_t kShown = 24;
  return fail(ErrorKind::kInvalidData, "{} is {}, expected a whole number from {} to {}", what,
              json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, kShown), least,
              most);
}

Result<int64_t> field(const Json& json, std::string_view name, int64_t least, int64_t most) {
  const auto found = json.find(name);
  if (found == json.end()) return fail(ErrorKind::kInvalidData, "{} is missing", name);
  return integer_in(*found, name, least, most);
}

Result<void> refuse_others(const Json& json, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : json.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fail(ErrorKind::kInvalidData, "there is no field {}", name);
  }
  return {};
}

Result<Json> parse_line(std::string_view line) {
  PENSTOCK_ASSIGN(Json json, parse_json(line, kLimits));
  if (!json.is_object()) return fail(ErrorKind::kInvalidData, "expected a JSON object");
  return json;
}

Result<RoutingRecord::Shape> parse_shape(std::string_view line) {
  PENSTOCK_ASSIGN(const Json json, parse_line(line));
  PENSTOCK_TRY(refuse_others(json, {kVersionField, "model", "layers", "experts", "top_k"}));
  PENSTOCK_TRY(field(json, kVersionField, kVersion, kVersion));
  RoutingRecord::Shape shape;
  if (const auto model = json.find("model"); model != json.end()) {
    if (!model->is_string()) return fail(ErrorKind::kInvalidData, "model is no string");
    shape.model = model->get<std::string>();
  }
  PENSTOCK_ASSIGN(const int64_t n_layers, field(json, "layers", 1, kMostLayers));
  PENSTOCK_ASSIGN(const int64_t n_experts, field(json, "experts", 1, kMostExperts));
  if (n_layers * n_experts > kMostExpertsOfAllLayers) {
    return fail(ErrorKind::kInvalidData, "{} layers of {} experts are more than {} experts",
                n_layers, n_experts, kMostExpertsOfAllLayers);
  }
  PENSTOCK_ASSIGN(const int64_t top_k, field(json, "top_k", 1, n_experts));
  shape.n_layers = static_cast<int>(n_layers);
  shape.n_experts = static_cast<int>(n_experts);
  shape.top_k = static_cast<int>(top_k);
  return shape;
}

Result<std::vector<int>> parse_visit(const Json& json, const RoutingRecord::Shape& shape,
                                     size_t layer) {
  if (!json.is_array()) {
    return fail(ErrorKind::kInvalidData, "experts[{}] is no list of experts", layer);
  }
  std::vector<int> experts;
  experts.reserve(json.size());
  for (const Json& item : json) {
    PENSTOCK_ASSIGN(
        const int64_t expert,
        integer_in(item, fmt::format("an expert of experts[{}]", layer), 0, shape.n_experts - 1));
    if (!experts.empty() && expert <= experts.back()) {
      return fail(ErrorKind::kInvalidData, "experts[{}] has {} behind {}, expected ascending",
                  layer, expert, experts.back());
    }
    experts.push_back(static_cast<int>(expert));
  }
  return experts;
}

Result<void> parse_step(std::string_view line, RoutingRecord& record) {
  PENSTOCK_ASSIGN(const Json json, parse_line(line));
  PENSTOCK_TRY(refuse_others(json, {"prompt", "generated", "experts"}));
  PENSTOCK_ASSIGN(const int64_t n_prompt, field(json, "prompt", 0, kMostTokens));
  PENSTOCK_ASSIGN(const int64_t n_generated, field(json, "generated", 0, kMostTokens));
  const auto layers = json.find("experts");
  const auto n_layers = static_cast<size_t>(record.shape().n_layers);
  if (layers == json.end() || !layers->is_array() || layers->size() != n_layers) {
    return fail(ErrorKind::kInvalidData, "experts is no list of {} layers' lists", n_layers);
  }
  record.begin_step(n_prompt, n_generated);
  for (size_t layer = 0; layer < n_layers; ++layer) {
    PENSTOCK_ASSIGN(const std::vector<int> experts,
                    parse_visit((*layers)[layer], record.shape(), layer));
    if (!experts.empty()) record.add_visit(static_cast<int>(layer), experts);
  }
  return {};
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::unexpected<Error> in_line(const Error& error, size_t number) {
  return std::unexpected(error.in(fmt::format("line {}", number)));
}

}  // namespace

Result<RoutingRecord> RoutingRecord::parse(std::string_view text) {
  auto shape = parse_shape(take_line(text));
  if (!shape) return in_line(shape.error().in("no routing record"), 1);
  RoutingRecord record(*std::move(shape));
  for (size_t number = 2; !text.empty(); ++number) {
    if (auto done = parse_step(take_line(text), record); !done) {
      return in_line(done.error(), number);
    }
  }
  if (record.visits_.empty()) {
    return fail(ErrorKind::kInvalidData, "the routing record has no step that visits an expert");
  }
  return record;
}

Result<RoutingRecord> RoutingRecord::read(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMostBytes));
  auto record = parse(text);
  if (!record) return std::unexpected(record.error().in(path.string()));
  return record;
}

std::string RoutingRecord::text() const {
  const OrderedJson header = {{kVersionField, kVersion},
                              {"model", shape_.model},
                              {"layers", shape_.n_layers},
                              {"experts", shape_.n_experts},
                              {"top_k", shape_.top_k}};
  std::string text = header.dump() + '\n';
  for (const Step& step : steps_) {
    OrderedJson layers = OrderedJson::array();
    for (int i = 0; i < shape_.n_layers; ++i) layers.push_back(OrderedJson::array());
    for (const Visit& visit : visits(step)) layers[visit.layer] = experts(visit);
    const OrderedJson line = {
        {"prompt", step.n_prompt}, {"generated", step.n_generated}, {"experts", layers}};
    text += line.dump() + '\n';
  }
  return text;
}

void RoutingRecord::begin_step(int64_t n_prompt, int64_t n_generated) {
  steps_.push_back(
      {.n_prompt = n_prompt, .n_generated = n_generated, .first_visit = visits_.size()});
}

void RoutingRecord::add_visit(int layer, std::span<const int> experts) {
  PENSTOCK_CHECK(!steps_.empty() && 0 <= layer && layer < shape_.n_layers && !experts.empty(),
                 "a visit of no step, layer or expert");
  visits_.push_back({.layer = static_cast<uint16_t>(layer),
                     .n_experts = static_cast<uint32_t>(experts.size()),
                     .first_expert = experts_.size()});
  experts_.insert(experts_.end(), experts.begin(), experts.end());
  ++steps_.back().n_visits;
}

int64_t RoutingRecord::n_experts() const {
  std::vector<bool> has_some(static_cast<size_t>(shape_.n_layers));
  for (const Visit& visit : visits_) has_some[visit.layer] = true;
  return std::ranges::count(has_some, true) * int64_t{shape_.n_experts};
}

}  // namespace penstock
