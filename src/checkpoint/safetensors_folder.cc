#include "checkpoint/safetensors_folder.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/units.h"
#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr uint64_t kMaxIndexBytes = 256 * kMiB;

// A file of the folder itself: no path that leads elsewhere.
bool is_basename(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

std::vector<std::string> safetensors_files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// The tensors of a folder with an index.
class ShardReader {
 public:
  ShardReader(const std::filesystem::path& folder, std::map<std::string, std::string> index)
      : folder_(folder), index_(std::move(index)) {}

  Result<SafetensorsFolder> read() {
    PENSTOCK_TRY(open_shards());
    for (const auto& [tensor, shard] : index_) PENSTOCK_TRY(place(tensor, shard));
    note_extras();
    return std::move(result_);
  }

 private:
  Result<void> open_shards() {
    for (const auto& [tensor, shard] : index_) {
      if (headers_.contains(shard)) continue;
      if (!path_exists(folder_ / shard)) {
        return fail(ErrorKind::kNotFound, "{} is missing: {} says tensor {} is in it",
                    (folder_ / shard).string(), kIndexName, tensor);
      }
      PENSTOCK_ASSIGN(File file, File::open(folder_ / shard));
      PENSTOCK_ASSIGN(SafetensorsHeader header, read_safetensors_header(file));
      headers_.emplace(shard,
                       Shard{static_cast<uint32_t>(result_.files.size()), std::move(header)});
      result_.files.push_back(std::move(file));
    }
    return {};
  }

  Result<void> place(const std::string& tensor, const std::string& shard) {
    const Shard& said = headers_.at(shard);
    if (const auto found = said.header.find(tensor); found != said.header.end()) {
      result_.tensors.emplace(tensor, PlacedTensor{said.file, found->second});
      return {};
    }
    for (const auto& [other, contents] : headers_) {
      if (!contents.header.contains(tensor)) continue;
      return fail(ErrorKind::kInvalidData, "{} says tensor {} is in {}, but it is in {}",
                  (folder_ / kIndexName).string(), tensor, shard, other);
    }
    return fail(ErrorKind::kInvalidData, "{} says tensor {} is in {}, but no file has it",
                (folder_ / kIndexName).string(), tensor, shard);
  }

  void note_extras() {
    for (const std::string& name : safetensors_files_in(folder_)) {
      if (!headers_.contains(name)) {
        result_.notes.push_back(
            fmt::format("{} is not used: {} does not list it", name, kIndexName));
      }
    }
    for (const auto& [shard, contents] : headers_) {
      const auto n_extra = std::ranges::count_if(
          contents.header, [&](const auto& entry) { return !index_.contains(entry.first); });
      if (n_extra > 0) {
        result_.notes.push_back(fmt::format("{} tensor{} of {} not used: {} does not list {}",
                                            n_extra, n_extra == 1 ? "" : "s",
                                            n_extra == 1 ? shard + " is" : shard + " are",
                                            kIndexName, n_extra == 1 ? "it" : "them"));
      }
    }
  }

  struct Shard {
    uint32_t file;
    SafetensorsHeader header;
  };

  const std::filesystem::path& folder_;
  std::map<std::string, std::string> index_;
  std::map<std::string, Shard> headers_;
  SafetensorsFolder result_;
};

Result<SafetensorsFolder> read_single(const std::filesystem::path& folder) {
  const auto path = folder / kSingleName;
  if (!path_exists(path)) {
    const auto others = safetensors_files_in(folder);
    return fail(ErrorKind::kNotFound, "{} has neither {} nor {}{}", folder.string(), kSingleName,
                kIndexName,
                others.empty() ? "" : fmt::format(", only {}", fmt::join(others, ", ")));
  }
  SafetensorsFolder result;
  PENSTOCK_ASSIGN(File file, File::open(path));
  PENSTOCK_ASSIGN(SafetensorsHeader header, read_safetensors_header(file));
  for (auto& [name, tensor] : header) {
    result.tensors.emplace(name, PlacedTensor{0, std::move(tensor)});
  }
  result.files.push_back(std::move(file));
  return result;
}

}  // namespace

const PlacedTensor* SafetensorsFolder::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text) {
  PENSTOCK_ASSIGN(const Json json, parse_json(text, {.refuse_duplicates = true}));
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) {
    return fail(ErrorKind::kInvalidData, "there is no object \"weight_map\"");
  }
  std::map<std::string, std::string> index;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_basename(shard.get_ref<const std::string&>())) {
      return fail(ErrorKind::kInvalidData,
                  "tensor {} is said to be in {}, expected the name of a file of the same folder",
                  tensor, brief(shard));
    }
    index.emplace(tensor, shard.get<std::string>());
  }
  return index;
}

Result<SafetensorsFolder> read_safetensors_folder(const std::filesystem::path& folder) {
  const auto path = folder / kIndexName;
  if (!path_exists(path)) return read_single(folder);
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMaxIndexBytes));
  auto index = parse_safetensors_index(text);
  if (!index) return std::unexpected(index.error().in(path.string()));
  return ShardReader(folder, *std::move(index)).read();
}

}  // namespace penstock
