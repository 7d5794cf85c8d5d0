#include "checkpoint/gguf_files.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint/gguf_metadata.h"
#include "os/file.h"

namespace penstock {
namespace {

// "PREFIX-00002-of-00003.gguf" taken apart.
struct SplitName {
  std::string prefix;
  int number = 0;  // from 1
  int count = 0;
};

std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && text.size() == 5 && value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<SplitName> split_name(const std::string& name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (name.size() < kTail.size() || !name.ends_with(".gguf")) return {};
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return {};
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!number || !count || *number > *count) return {};
  return SplitName{name.substr(0, name.size() - kTail.size()), *number, *count};
}

Result<int64_t> split_key(const GgufHeader& header, std::string_view key, int64_t otherwise) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  PENSTOCK_ASSIGN(const auto value, GgufMetadata(header.metadata).integer(key, 0, kMost));
  return value.value_or(otherwise);
}

// File `index` of `count` says itself which of how many it is.
Result<void> check_split_keys(const GgufHeader& header, size_t index, size_t count) {
  PENSTOCK_ASSIGN(const int64_t said_count, split_key(header, "split.count", 1));
  PENSTOCK_ASSIGN(const int64_t said_index, split_key(header, "split.no", 0));
  // Writers of whole files leave 0 there.
  if (std::max<int64_t>(said_count, 1) != static_cast<int64_t>(count)) {
    return fail(ErrorKind::kInvalidData,
                "metadata \"split.count\" is {}, but the file's name makes it one of {}",
                said_count, count);
  }
  if (said_index == static_cast<int64_t>(index)) return {};
  return fail(ErrorKind::kInvalidData, "metadata \"split.no\" is {}, expected {}", said_index,
              index);
}

}  // namespace

const GgufPlacedTensor* GgufModel::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<std::vector<std::filesystem::path>> gguf_split_paths(const std::filesystem::path& path) {
  const auto split = split_name(path.filename().string());
  if (!split) return std::vector{path};
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i <= split->count; ++i) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}.gguf", split->prefix, i, split->count);
    const auto part = path.parent_path() / name;
    if (!path_exists(part)) {
      return fail(ErrorKind::kNotFound, "{} is missing: it is file {} of {} of this model",
                  part.string(), i, split->count);
    }
    paths.push_back(part);
  }
  return paths;
}

Result<GgufModel> join_gguf(std::span<const GgufFile> files) {
  GgufModel model;
  int64_t expected_tensors = -1;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string path = files[i].path.string();
    auto header = parse_gguf(files[i].bytes);
    if (!header) return std::unexpected(header.error().in(path));
    if (const auto checked = check_split_keys(*header, i, files.size()); !checked) {
      return std::unexpected(checked.error().in(path));
    }
    for (GgufTensor& tensor : header->tensors) {
      std::string name = tensor.name;
      const auto [at, is_new] = model.tensors.try_emplace(
          std::move(name), GgufPlacedTensor{static_cast<uint32_t>(i), std::move(tensor)});
      if (!is_new) {
        return fail(ErrorKind::kInvalidData, "{}: tensor {} is also in {}", path, at->first,
                    files[at->second.file].path.string());
      }
    }
    if (i > 0) continue;
    const auto count = split_key(*header, "split.tensors.count", -1);
    if (!count) return std::unexpected(count.error().in(path));
    expected_tensors = *count;
    model.metadata = std::move(header->metadata);
  }
  if (files.size() > 1 && expected_tensors != static_cast<int64_t>(model.tensors.size())) {
    return fail(ErrorKind::kInvalidData,
                "{}: metadata \"split.tensors.count\" is {}, but the {} files hold {} tensors",
                files[0].path.string(), expected_tensors, files.size(), model.tensors.size());
  }
  return model;
}

Result<std::vector<float>> read_gguf_floats(std::span<const GgufFile> files,
                                            const GgufPlacedTensor& placed) {
  const GgufTensor& tensor = placed.tensor;
  if (tensor.type->format != Format::kF32) {
    return fail(ErrorKind::kUnsupported, "tensor {} is in format {}, expected f32", tensor.name,
                tensor.type->name);
  }
  std::vector<float> numbers(tensor.bytes / sizeof(float));
  std::ranges::copy(files[placed.file].bytes.subspan(tensor.offset, tensor.bytes),
                    std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

}  // namespace penstock
