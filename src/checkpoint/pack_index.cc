#include "checkpoint/pack_index.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "base/version.h"
#include "checkpoint/pack_recipe.h"
#include "os/file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "penstock-pack";
constexpr std::string_view kChecksumField = "\"checksum\": \"";
constexpr size_t kHashDigits = 16;
constexpr uint64_t kMaxIndexBytes = 512 * kMiB;  // about a million experts
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 56;
constexpr uint64_t kMaxDim = uint64_t{1} << 40;
constexpr std::pair<ScaleFormat, std::string_view> kScaleFormats[] = {
    {ScaleFormat::kF32, "f32"},
    {ScaleFormat::kBF16, "bf16"},
    {ScaleFormat::kF16, "f16"},
    {ScaleFormat::kE8M0, "e8m0"},
};

// ---------------------------------------------------------------------------------------- writing

std::string to_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

OrderedJson run_to_json(const Extent& run, const Extent& region) {
  return OrderedJson::array({run.offset - region.offset, run.bytes});
}

OrderedJson to_json(const PackTensor& named, const Extent& region) {
  const StoredTensor& tensor = named.stored;
  OrderedJson json;
  json["name"] = named.name;
  json["source_name"] = tensor.source_name;
  json["format"] = info(tensor.format).name;
  json["rows"] = tensor.rows;
  json["cols"] = tensor.cols;
  json["data"] = run_to_json(tensor.data, region);
  if (tensor.scales.bytes > 0) json["scales"] = run_to_json(tensor.scales, region);
  if (tensor.zeros.bytes > 0) json["zeros"] = run_to_json(tensor.zeros, region);
  if (tensor.groups.bytes > 0) json["groups"] = run_to_json(tensor.groups, region);
  json["scale_format"] = std::ranges::find(kScaleFormats, tensor.scale_format,
                                           &std::pair<ScaleFormat, std::string_view>::first)
                             ->second;
  json["group_cols"] = tensor.group_cols;
  json["block_rows"] = tensor.block_rows;
  json["zeros_minus_one"] = tensor.zeros_minus_one;
  json["scale"] = tensor.scale;
  return json;
}

OrderedJson to_json(const PackRegion& region) {
  OrderedJson json;
  json["name"] = region.name;
  json["file"] = region.extent.file;
  json["offset"] = region.extent.offset;
  json["bytes"] = region.extent.bytes;
  json["xxh3"] = to_hex(region.xxh3);
  for (const PackTensor& tensor : region.tensors) {
    json["tensors"].push_back(to_json(tensor, region.extent));
  }
  return json;
}

OrderedJson to_json(const GenerationDefaults& generation) {
  OrderedJson json;
  json["eos_ids"] = generation.eos_ids;
  json["bos_id"] = nullptr;
  if (generation.bos_id) json["bos_id"] = *generation.bos_id;
  return json;
}

OrderedJson head_to_json(const PackIndex& index) {
  OrderedJson json;
  json["magic"] = kMagic;
  json["checksum"] = std::string(kHashDigits, '0');
  json["version"] = kPackVersion;
  json["written_by"] = fmt::format("penstock {}", version());
  json["source"] = index.source;
  json["spec"] = OrderedJson(to_json(index.spec));
  json["generation"] = to_json(index.generation);
  json["bos_token"] = index.bos_token;
  json["eos_token"] = index.eos_token;
  json["texts"] = OrderedJson::array();
  for (const PackText& text : index.texts) {
    json["texts"].push_back(
        {{"name", text.name}, {"bytes", text.bytes}, {"xxh3", to_hex(text.xxh3)}});
  }
  json["files"] = OrderedJson::array();
  for (const PackFile& file : index.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  return json;
}

// The checksum's digits in `text`, which must be near its start; npos when it has none.
size_t checksum_position(std::string_view text) {
  const size_t field = text.substr(0, 256).find(kChecksumField);
  if (field == std::string_view::npos) return field;
  const size_t digits = field + kChecksumField.size();
  return digits + kHashDigits <= text.size() ? digits : std::string_view::npos;
}

// xxh3 of the whole text with zeros for the checksum's own digits.
uint64_t checksum_of(std::string text, size_t position) {
  text.replace(position, kHashDigits, kHashDigits, '0');
  return XXH3_64bits(text.data(), text.size());
}

// ---------------------------------------------------------------------------------------- reading

// One JSON object, and what to call it in errors.
class Fields {
 public:
  static Result<Fields> of(const Json& json, std::string where) {
    if (!json.is_object()) {
      return fail(ErrorKind::kInvalidData, "{}: expected an object, found {}", where,
                  json.type_name());
    }
    return Fields(json, std::move(where));
  }

  bool has(const char* key) const { return json_.contains(key); }
  const std::string& where() const { return where_; }

  Result<const Json*> get(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return fail(ErrorKind::kInvalidData, "{}: no {:?}", where_, key);
    return &*found;
  }

  Result<uint64_t> count(const char* key, uint64_t min, uint64_t max) const {
    PENSTOCK_ASSIGN(const Json* const value, get(key));
    if (!value->is_number_unsigned() || value->get<uint64_t>() < min ||
        value->get<uint64_t>() > max) {
      return wrong(key, fmt::format("a whole number from {} to {}", min, max), *value);
    }
    return value->get<uint64_t>();
  }

  Result<float> finite(const char* key) const {
    PENSTOCK_ASSIGN(const Json* const value, get(key));
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
      return wrong(key, "a finite number", *value);
    }
    return static_cast<float>(number);
  }

  Result<bool> boolean(const char* key) const {
    PENSTOCK_ASSIGN(const Json* const value, get(key));
    if (!value->is_boolean()) return wrong(key, "true or false", *value);
    return value->get<bool>();
  }

  Result<std::string> text(const char* key) const {
    PENSTOCK_ASSIGN(const Json* const value, get(key));
    if (!value->is_string()) return wrong(key, "a string", *value);
    return value->get<std::string>();
  }

  Result<const Json*> array(const char* key) const {
    PENSTOCK_ASSIGN(const Json* const value, get(key));
    if (!value->is_array()) return wrong(key, "an array", *value);
    return value;
  }

  Result<uint64_t> hash(const char* key) const {
    PENSTOCK_ASSIGN(const std::string digits, text(key));
    uint64_t value = 0;
    const auto end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value, 16);
    if (digits.size() != kHashDigits || parsed.ec != std::errc{} || parsed.ptr != end) {
      return wrong(key, "16 hexadecimal digits", Json(digits));
    }
    return value;
  }

  std::unexpected<Error> wrong(const char* key, std::string_view expected,
                               const Json& found) const {
    const bool is_short = found.is_primitive() && found.dump().size() <= 80;
    return fail(ErrorKind::kInvalidData, "{}: {:?}: expected {}, found {}", where_, key, expected,
                is_short ? found.dump() : std::string(found.type_name()));
  }

 private:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const Json& json_;
  std::string where_;
};

// A plain name inside the pack's folder.
Result<std::string> file_name(const Fields& fields) {
  PENSTOCK_ASSIGN(std::string name, fields.text("name"));
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || name == kPackIndexName) {
    return fields.wrong("name", "the name of a file in the pack's folder", Json(name));
  }
  return name;
}

Result<std::vector<PackText>> parse_texts(const Fields& head) {
  PENSTOCK_ASSIGN(const Json* const array, head.array("texts"));
  std::vector<PackText> texts;
  for (const Json& json : *array) {
    PENSTOCK_ASSIGN(const Fields fields, Fields::of(json, fmt::format("texts[{}]", texts.size())));
    PackText text;
    PENSTOCK_ASSIGN(text.name, file_name(fields));
    PENSTOCK_ASSIGN(text.bytes, fields.count("bytes", 0, kMaxFileBytes));
    PENSTOCK_ASSIGN(text.xxh3, fields.hash("xxh3"));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::vector<PackFile>> parse_files(const Fields& head) {
  PENSTOCK_ASSIGN(const Json* const array, head.array("files"));
  std::vector<PackFile> files;
  for (const Json& json : *array) {
    PENSTOCK_ASSIGN(const Fields fields, Fields::of(json, fmt::format("files[{}]", files.size())));
    PackFile file;
    PENSTOCK_ASSIGN(file.name, file_name(fields));
    PENSTOCK_ASSIGN(file.bytes, fields.count("bytes", 1, kMaxFileBytes));
    files.push_back(std::move(file));
  }
  return files;
}

Result<void> check_names_differ(const PackIndex& index) {
  std::set<std::string_view> names;
  const auto check = [&](std::string_view name) -> Result<void> {
    if (names.insert(name).second) return {};
    return fail(ErrorKind::kInvalidData, "file {:?} is listed twice", name);
  };
  for (const PackText& text : index.texts) PENSTOCK_TRY(check(text.name));
  for (const PackFile& file : index.files) PENSTOCK_TRY(check(file.name));
  return {};
}

Result<GenerationDefaults> parse_generation(const Fields& head) {
  constexpr uint64_t kMaxId = std::numeric_limits<int32_t>::max();
  PENSTOCK_ASSIGN(const Json* const json, head.get("generation"));
  PENSTOCK_ASSIGN(const Fields fields, Fields::of(*json, "generation"));
  GenerationDefaults generation;
  PENSTOCK_ASSIGN(const Json* const eos_ids, fields.array("eos_ids"));
  for (const Json& id : *eos_ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxId) {
      return fields.wrong("eos_ids", "token ids", id);
    }
    generation.eos_ids.push_back(id.get<int32_t>());
  }
  PENSTOCK_ASSIGN(const Json* const bos_id, fields.get("bos_id"));
  if (!bos_id->is_null()) {
    PENSTOCK_ASSIGN(const uint64_t id, fields.count("bos_id", 0, kMaxId));
    generation.bos_id = static_cast<int32_t>(id);
  }
  return generation;
}

// [offset in the region, bytes]; an absent one is empty.
Result<Extent> parse_run(const Fields& fields, const char* key, const Extent& region) {
  if (!fields.has(key)) return Extent{};
  PENSTOCK_ASSIGN(const Json* const array, fields.array(key));
  const auto is_count = [](const Json& json) { return json.is_number_unsigned(); };
  if (array->size() != 2 || !std::ranges::all_of(*array, is_count)) {
    return fields.wrong(key, "[offset, bytes]", *array);
  }
  const auto offset = (*array)[0].get<uint64_t>();
  const auto bytes = (*array)[1].get<uint64_t>();
  if (bytes == 0 || offset > region.bytes || bytes > region.bytes - offset) {
    return fail(ErrorKind::kInvalidData, "{}: {} [{}, {}] is not inside the region's {} bytes",
                fields.where(), key, offset, bytes, region.bytes);
  }
  return Extent{region.file, region.offset + offset, bytes};
}

Result<ScaleFormat> parse_scale_format(const Fields& fields) {
  PENSTOCK_ASSIGN(const std::string name, fields.text("scale_format"));
  const auto found =
      std::ranges::find(kScaleFormats, name, &std::pair<ScaleFormat, std::string_view>::second);
  if (found == std::end(kScaleFormats)) {
    return fields.wrong("scale_format", "f32, bf16, f16 or e8m0", Json(name));
  }
  return found->first;
}

Result<StoredTensor> parse_tensor(const Fields& fields, const Extent& region) {
  StoredTensor tensor;
  PENSTOCK_ASSIGN(tensor.source_name, fields.text("source_name"));
  PENSTOCK_ASSIGN(const std::string format_name, fields.text("format"));
  const auto format = format_from_name(format_name);
  if (!format) return fields.wrong("format", "a format of this version", Json(format_name));
  tensor.format = *format;
  PENSTOCK_ASSIGN(const uint64_t rows, fields.count("rows", 1, kMaxDim));
  PENSTOCK_ASSIGN(const uint64_t cols, fields.count("cols", 1, kMaxDim));
  tensor.rows = static_cast<int64_t>(rows);
  tensor.cols = static_cast<int64_t>(cols);
  PENSTOCK_ASSIGN(tensor.data, parse_run(fields, "data", region));
  PENSTOCK_ASSIGN(tensor.scales, parse_run(fields, "scales", region));
  PENSTOCK_ASSIGN(tensor.zeros, parse_run(fields, "zeros", region));
  PENSTOCK_ASSIGN(tensor.groups, parse_run(fields, "groups", region));
  PENSTOCK_ASSIGN(tensor.scale_format, parse_scale_format(fields));
  PENSTOCK_ASSIGN(const uint64_t group_cols, fields.count("group_cols", 0, 1U << 30));
  PENSTOCK_ASSIGN(const uint64_t block_rows, fields.count("block_rows", 0, 1U << 30));
  tensor.group_cols = static_cast<uint32_t>(group_cols);
  tensor.block_rows = static_cast<uint32_t>(block_rows);
  PENSTOCK_ASSIGN(tensor.zeros_minus_one, fields.boolean("zeros_minus_one"));
  PENSTOCK_ASSIGN(tensor.scale, fields.finite("scale"));
  if (auto sized = check_sizes(tensor); !sized) {
    return std::unexpected(sized.error().in(fields.where()));
  }
  return tensor;
}

Result<void> check_runs_apart(const PackRegion& region) {
  std::vector<Extent> runs;
  for (const PackTensor& tensor : region.tensors) {
    const StoredTensor& stored = tensor.stored;
    for (const Extent& run : {stored.data, stored.scales, stored.zeros, stored.groups}) {
      if (run.bytes > 0) runs.push_back(run);
    }
  }
  std::ranges::sort(runs, {}, &Extent::offset);
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i - 1].offset + runs[i - 1].bytes > runs[i].offset) {
      return fail(ErrorKind::kInvalidData, "region {:?}: two tensors share bytes at offset {}",
                  region.name, runs[i].offset - region.extent.offset);
    }
  }
  return {};
}

Result<PackRegion> parse_region(const Fields& fields, size_t n_files) {
  PackRegion region;
  PENSTOCK_ASSIGN(region.name, fields.text("name"));
  PENSTOCK_ASSIGN(const uint64_t file, fields.count("file", 0, n_files - 1));
  region.extent.file = static_cast<uint32_t>(file);
  PENSTOCK_ASSIGN(region.extent.offset, fields.count("offset", 0, kMaxFileBytes));
  PENSTOCK_ASSIGN(region.extent.bytes, fields.count("bytes", 1, kMaxFileBytes));
  PENSTOCK_ASSIGN(region.xxh3, fields.hash("xxh3"));
  PENSTOCK_ASSIGN(const Json* const tensors, fields.array("tensors"));
  for (const Json& json : *tensors) {
    PENSTOCK_ASSIGN(const Fields tensor,
                    Fields::of(json, fmt::format("region {:?}: tensors[{}]", region.name,
                                                 region.tensors.size())));
    PENSTOCK_ASSIGN(std::string name, tensor.text("name"));
    PENSTOCK_ASSIGN(StoredTensor stored, parse_tensor(tensor, region.extent));
    region.tensors.push_back({std::move(name), std::move(stored)});
  }
  if (region.tensors.empty()) return fields.wrong("tensors", "at least one", *tensors);
  PENSTOCK_TRY(check_runs_apart(region));
  return region;
}

// Regions come in file order and tile their files: none overlap, and no byte goes unchecked.
Result<void> check_tiling(const PackIndex& index) {
  uint32_t file = 0;
  uint64_t end = 0;
  for (const PackRegion& region : index.regions) {
    const Extent& extent = region.extent;
    if (extent.file == file + 1 && end == index.files[file].bytes) {
      file = extent.file;
      end = 0;
    }
    if (extent.file != file || extent.offset != end) {
      return fail(ErrorKind::kInvalidData,
                  "region {:?} begins at {} of file {}, expected {} of file {}, where the one "
                  "before it ends",
                  region.name, extent.offset, extent.file, end, file);
    }
    if (extent.bytes % kPackAlignment != 0) {
      return fail(ErrorKind::kInvalidData, "region {:?} has {} bytes, not a multiple of {}",
                  region.name, extent.bytes, kPackAlignment);
    }
    end += extent.bytes;
  }
  if (file + 1 != index.files.size() || end != index.files[file].bytes) {
    return fail(ErrorKind::kInvalidData, "the regions end at {} of {:?}, which has {} bytes", end,
                index.files[file].name, index.files[file].bytes);
  }
  return {};
}

Result<std::vector<PackRegion>> parse_regions(const Fields& head, size_t n_files) {
  PENSTOCK_ASSIGN(const Json* const array, head.array("regions"));
  std::vector<PackRegion> regions;
  std::set<std::string> tensors;
  for (const Json& json : *array) {
    PENSTOCK_ASSIGN(const Fields fields,
                    Fields::of(json, fmt::format("regions[{}]", regions.size())));
    PENSTOCK_ASSIGN(PackRegion region, parse_region(fields, n_files));
    for (const PackTensor& tensor : region.tensors) {
      if (!tensors.insert(tensor.name).second) {
        return fail(ErrorKind::kInvalidData, "tensor {:?} is in two regions", tensor.name);
      }
    }
    regions.push_back(std::move(region));
  }
  return regions;
}

Result<void> check_version(const Fields& head) {
  PENSTOCK_ASSIGN(const std::string magic, head.text("magic"));
  if (magic != kMagic) {
    return head.wrong("magic", fmt::format("{:?}", kMagic), Json(magic));
  }
  PENSTOCK_ASSIGN(const uint64_t version,
                  head.count("version", 0, std::numeric_limits<int32_t>::max()));
  if (version == kPackVersion) return {};
  return std::unexpected(
      Error{.kind = ErrorKind::kUnsupported,
            .message = fmt::format("the pack has version {}, and this program reads version {}",
                                   version, kPackVersion),
            .hint = "pack the model again"});
}

Result<void> check_checksum(const std::string& text) {
  const size_t position = checksum_position(text);
  if (position == std::string::npos) {
    return fail(ErrorKind::kInvalidData, "no {} near its start", kChecksumField);
  }
  const std::string_view written = std::string_view(text).substr(position, kHashDigits);
  const std::string found = to_hex(checksum_of(text, position));
  if (written == found) return {};
  return std::unexpected(
      Error{.kind = ErrorKind::kInvalidData,
            .message = fmt::format("the file is damaged or was edited: its checksum is {}, and it "
                                   "says {}",
                                   found, written),
            .hint = "pack the model again"});
}

}  // namespace

bool is_pack(const fs::path& folder) { return path_exists(folder / kPackIndexName); }

std::string to_text(const PackIndex& index) {
  const OrderedJson head = head_to_json(index);
  std::string text = "{\n";
  for (const auto& [key, value] : head.items()) {
    text += fmt::format("{}: {},\n", Json(key).dump(), value.dump());
  }
  text += "\"regions\": [";
  for (size_t i = 0; i < index.regions.size(); ++i) {
    text += fmt::format("{}\n{}", i > 0 ? "," : "", to_json(index.regions[i]).dump());
  }
  text += "\n]\n}\n";
  const size_t position = checksum_position(text);
  return text.replace(position, kHashDigits, to_hex(checksum_of(text, position)));
}

Result<PackIndex> parse_pack_index(std::string_view text) {
  PENSTOCK_ASSIGN(const Json json, parse_json(text, {.refuse_duplicates = true}));
  PENSTOCK_ASSIGN(const Fields head, Fields::of(json, "the index"));
  PENSTOCK_TRY(check_version(head));
  PackIndex index;
  PENSTOCK_ASSIGN(index.source, head.text("source"));
  PENSTOCK_ASSIGN(const Json* const spec, head.get("spec"));
  PENSTOCK_ASSIGN(index.spec, spec_from_json(*spec));
  PENSTOCK_ASSIGN(index.generation, parse_generation(head));
  PENSTOCK_ASSIGN(index.bos_token, head.text("bos_token"));
  PENSTOCK_ASSIGN(index.eos_token, head.text("eos_token"));
  PENSTOCK_ASSIGN(index.texts, parse_texts(head));
  PENSTOCK_ASSIGN(index.files, parse_files(head));
  if (index.files.empty()) return fail(ErrorKind::kInvalidData, "\"files\" is empty");
  PENSTOCK_TRY(check_names_differ(index));
  PENSTOCK_ASSIGN(index.regions, parse_regions(head, index.files.size()));
  PENSTOCK_TRY(check_tiling(index));
  return index;
}

Result<PackIndex> read_pack_index(const fs::path& folder) {
  const fs::path path = folder / kPackIndexName;
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMaxIndexBytes));
  if (auto sound = check_checksum(text); !sound) {
    return std::unexpected(sound.error().in(path.string()));
  }
  auto index = parse_pack_index(text);
  if (!index) return std::unexpected(index.error().in(path.string()));
  return index;
}

}  // namespace penstock
