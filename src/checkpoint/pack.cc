#include "checkpoint/pack.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "checkpoint/needed_tensors.h"
#include "checkpoint/pack_index.h"
#include "checkpoint/pack_recipe.h"
#include "checkpoint/pack_writer.h"
#include "os/file.h"
#include "os/output.h"
#include "tensor/encode.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizerJson = "tokenizer.json";
constexpr std::string_view kTokenizerGgml = "tokenizer.ggml.json";
constexpr std::string_view kChatTemplate = "chat_template.jinja";
constexpr std::string_view kConfig = "config.json";
constexpr uint64_t kMaxConfigBytes = 16 * kMiB;
constexpr uint64_t kMaxTextBytes = kGiB;

struct TextFile {
  std::string name = {};
  std::string content = {};
};

// ---------------------------------------------------------------------------------------- writing

Result<void> check_experts_format(const ModelSpec& spec, Format format) {
  if (!can_encode(format)) {
    return fail(ErrorKind::kInvalidArgument,
                "--experts-format takes nvfp4, mxfp4, q8_0, q4_0 or bf16, found {}",
                info(format).name);
  }
  if (spec.moe.n_experts > 0) return {};
  return std::unexpected(Error{.kind = ErrorKind::kInvalidArgument,
                               .message = "--experts-format needs a model with routed experts, and "
                                          "this one is dense",
                               .hint = "--upcycle N makes experts of a dense model"});
}

std::vector<TensorRecipe> plain_recipes(const Checkpoint& source, std::optional<Format> format) {
  std::vector<TensorRecipe> recipes;
  for (const auto& [name, tensor] : source.tensors) {
    const bool is_expert = parse_expert_name(name).has_value();
    recipes.push_back({.name = name,
                       .source = tensor,
                       .format = is_expert ? format.value_or(tensor.format) : tensor.format});
  }
  return recipes;
}

std::string describe(const Checkpoint& source, const PackOptions& options) {
  const char* const kind = source.kind == SourceKind::kHuggingFace ? "Hugging Face folder"
                           : source.kind == SourceKind::kGguf      ? "GGUF"
                                                                   : "pack";
  std::string text = fmt::format("{} ({})", source.name, kind);
  if (options.upcycle) {
    text += fmt::format(", upcycled to {} experts, top {}, seed {}", options.upcycle->n_experts,
                        options.upcycle->top_k, options.upcycle->seed);
  }
  if (options.experts_format) {
    text += fmt::format(", experts in {}", info(*options.experts_format).name);
  }
  return text;
}

// The small files: tokenizer, template and, from a folder, its config.json.
Result<std::vector<TextFile>> gather_texts(const Checkpoint& source) {
  std::vector<TextFile> texts;
  const auto add = [&](std::string_view name, std::string content) {
    texts.push_back({std::string(name), std::move(content)});
  };
  if (!source.tokenizer.json.empty()) add(kTokenizerJson, source.tokenizer.json);
  if (!source.tokenizer.ggml.is_null()) {
    try {
      add(kTokenizerGgml, source.tokenizer.ggml.dump());
    } catch (const Json::exception& error) {
      return fail(ErrorKind::kInvalidData, "the tokenizer cannot be written as JSON: {}",
                  error.what());
    }
  }
  if (!source.tokenizer.chat_template.empty()) {
    add(kChatTemplate, source.tokenizer.chat_template);
  }
  std::error_code ignored;
  if (fs::is_regular_file(source.path / kConfig, ignored)) {
    PENSTOCK_ASSIGN(std::string config, read_whole_file(source.path / kConfig, kMaxConfigBytes));
    add(kConfig, std::move(config));
  }
  return texts;
}

Result<void> check_space(const fs::path& folder, const PackPlan& plan,
                         const std::vector<TextFile>& texts) {
  constexpr uint64_t kIndexBytesPerTensor = 512;
  uint64_t needed = plan.bytes();
  for (const TextFile& text : texts) needed += text.content.size();
  for (const RegionPlan& region : plan.regions) {
    needed += region.recipes.size() * kIndexBytesPerTensor;
  }
  PENSTOCK_ASSIGN(const uint64_t available, free_disk_bytes(folder));
  if (needed <= available) return {};
  return fail(ErrorKind::kExhausted, "the pack needs {} and the disk of {} has {} free",
              format_bytes(needed), folder.parent_path().string(), format_bytes(available));
}

// Everything write_pack does once it has a folder.
class PackJob {
 public:
  PackJob(const fs::path& folder, PackPlan plan, const ProgressFn& progress, std::stop_token stop)
      : folder_(folder),
        plan_(std::move(plan)),
        total_(plan_.bytes()),
        progress_(progress),
        stop_(std::move(stop)) {}

  Result<void> write_weights(const Checkpoint& source) {
    PENSTOCK_ASSIGN(TensorMaker maker, TensorMaker::open(source));
    auto region = plan_.regions.begin();
    uint64_t done = 0;
    for (uint32_t file = 0; file < plan_.files.size(); ++file) {
      PENSTOCK_ASSIGN(PackSink sink, PackSink::create(folder_ / plan_.files[file].name, done,
                                                      total_, progress_, stop_));
      for (; region != plan_.regions.end() && region->region.extent.file == file; ++region) {
        PENSTOCK_TRY(write_region(*region, maker, sink));
      }
      PENSTOCK_TRY(sink.finish());
      done += sink.offset();
    }
    return {};
  }

  Result<void> write_text(const TextFile& text) {
    PENSTOCK_ASSIGN(OutputFile file, OutputFile::create(folder_ / text.name));
    PENSTOCK_TRY(file.append(std::as_bytes(std::span(text.content))));
    return file.sync();
  }

  // What was written, for the index.
  void move_into(PackIndex& index) {
    index.files = std::move(plan_.files);
    for (RegionPlan& region : plan_.regions) index.regions.push_back(std::move(region.region));
  }

 private:
  static Result<void> write_region(RegionPlan& plan, TensorMaker& maker, PackSink& sink) {
    for (size_t i = 0; i < plan.recipes.size(); ++i) {
      PENSTOCK_TRY(maker.make(plan.recipes[i], plan.region.tensors[i].stored, sink));
    }
    PENSTOCK_TRY(sink.pad_to(plan.region.extent.offset + plan.region.extent.bytes));
    PENSTOCK_ASSIGN(plan.region.xxh3, sink.take_hash());
    return {};
  }

  const fs::path& folder_;
  PackPlan plan_;
  uint64_t total_;
  const ProgressFn& progress_;
  std::stop_token stop_;
};

Result<PackPlan> plan_pack(const Checkpoint& source, const PackOptions& options,
                           const ModelSpec& spec) {
  if (options.experts_format) {
    PENSTOCK_TRY(check_experts_format(spec, *options.experts_format));
  }
  if (!options.upcycle) return lay_out(plain_recipes(source, options.experts_format));
  PENSTOCK_ASSIGN(auto recipes, upcycle_recipes(source, *options.upcycle, options.experts_format));
  return lay_out(std::move(recipes));
}

PackSummary summarize(const PackIndex& index) {
  PackSummary summary;
  for (const PackFile& file : index.files) summary.bytes += file.bytes;
  for (const PackRegion& region : index.regions) {
    summary.n_tensors += region.tensors.size();
    summary.n_experts += parse_expert_name(region.tensors.front().name) ? 1 : 0;
  }
  return summary;
}

// ---------------------------------------------------------------------------------------- reading

Result<void> check_file_sizes(const fs::path& folder, const PackIndex& index) {
  for (const PackFile& file : index.files) {
    PENSTOCK_ASSIGN(const File opened, File::open(folder / file.name));
    if (opened.size() != file.bytes) {
      return std::unexpected(
          Error{.kind = ErrorKind::kInvalidData,
                .message = fmt::format("{} has {} bytes, expected {}", opened.path().string(),
                                       opened.size(), file.bytes),
                .hint = "the pack was not copied whole"});
    }
  }
  return {};
}

Result<std::string> read_checked_text(const fs::path& folder, const PackText& text) {
  PENSTOCK_ASSIGN(std::string content, read_whole_file(folder / text.name, kMaxTextBytes));
  const uint64_t found = XXH3_64bits(content.data(), content.size());
  if (content.size() == text.bytes && found == text.xxh3) return content;
  return fail(ErrorKind::kInvalidData,
              "{} has {} bytes with checksum {:016x}, expected {} with {:016x}",
              (folder / text.name).string(), content.size(), found, text.bytes, text.xxh3);
}

Result<StoredTokenizer> read_tokenizer(const fs::path& folder, const PackIndex& index) {
  StoredTokenizer tokenizer{.bos_token = index.bos_token, .eos_token = index.eos_token};
  for (const PackText& text : index.texts) {
    PENSTOCK_ASSIGN(std::string content, read_checked_text(folder, text));
    if (text.name == kTokenizerJson) {
      tokenizer.json = std::move(content);
    } else if (text.name == kChatTemplate) {
      tokenizer.chat_template = std::move(content);
    } else if (text.name == kTokenizerGgml) {
      auto parsed = parse_json(content);
      if (!parsed) return std::unexpected(parsed.error().in((folder / text.name).string()));
      tokenizer.ggml = *std::move(parsed);
    }
  }
  return tokenizer;
}

// GPTQ's table of each column's group: decoding indexes with what it holds.
Result<void> check_groups(const Checkpoint& pack, const StoredTensor& tensor) {
  PENSTOCK_ASSIGN(const File file, File::open(pack.files[tensor.groups.file]));
  std::vector<int32_t> groups(static_cast<size_t>(tensor.cols));
  PENSTOCK_TRY(file.read_exact(tensor.groups.offset, std::as_writable_bytes(std::span(groups))));
  const int64_t n_groups = (tensor.cols + tensor.group_cols - 1) / tensor.group_cols;
  for (const int32_t group : groups) {
    if (group < 0 || group >= n_groups) {
      return fail(ErrorKind::kInvalidData, "{}: {} puts a column in group {} of {}",
                  file.path().string(), tensor.source_name, group, n_groups);
    }
  }
  return {};
}

Result<uint64_t> hash_extent(const File& file, const Extent& extent, std::span<std::byte> staging,
                             const ProgressFn& progress, ProgressUpdate& update,
                             const std::stop_token& stop) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (uint64_t done = 0; done < extent.bytes;) {
    if (stop.stop_requested()) return fail(ErrorKind::kCancelled, "verifying was stopped");
    const auto chunk = staging.first(std::min<uint64_t>(extent.bytes - done, staging.size()));
    PENSTOCK_TRY(file.read_exact(extent.offset + done, chunk));
    XXH3_64bits_update(state.get(), chunk.data(), chunk.size());
    done += chunk.size();
    update.done += chunk.size();
    if (progress) progress(update);
  }
  return XXH3_64bits_digest(state.get());
}

Result<void> compare(const fs::path& file, const Region& region, uint64_t found) {
  if (found == region.xxh3) return {};
  return fail(ErrorKind::kInvalidData, "{}: {} has checksum {:016x}, expected {:016x}",
              file.string(), region.name, found, region.xxh3);
}

}  // namespace

Result<PackSummary> write_pack(const Checkpoint& source, const PackOptions& options,
                               const ProgressFn& progress, std::stop_token stop) {
  PackIndex index{.source = describe(source, options),
                  .spec = source.spec,
                  .generation = source.generation,
                  .bos_token = source.tokenizer.bos_token,
                  .eos_token = source.tokenizer.eos_token};
  if (options.upcycle) {
    PENSTOCK_ASSIGN(index.spec, upcycle_spec(source.spec, *options.upcycle));
  }
  PENSTOCK_ASSIGN(PackPlan plan, plan_pack(source, options, index.spec));
  PENSTOCK_ASSIGN(const std::vector<TextFile> texts, gather_texts(source));
  PENSTOCK_ASSIGN(PartialFolder folder, PartialFolder::create(options.output, options.if_exists));
  PENSTOCK_TRY(check_space(folder.path(), plan, texts));

  PackJob job(folder.path(), std::move(plan), progress, std::move(stop));
  PENSTOCK_TRY(job.write_weights(source));
  for (const TextFile& text : texts) {
    PENSTOCK_TRY(job.write_text(text));
    index.texts.push_back({.name = text.name,
                           .bytes = text.content.size(),
                           .xxh3 = XXH3_64bits(text.content.data(), text.content.size())});
  }
  job.move_into(index);
  PENSTOCK_TRY(job.write_text({std::string(kPackIndexName), to_text(index)}));
  PENSTOCK_TRY(folder.commit());

  PackSummary summary = summarize(index);
  summary.folder = folder.target();
  summary.removed = folder.removed();
  return summary;
}

Result<Checkpoint> open_pack(const fs::path& folder) {
  PENSTOCK_ASSIGN(PackIndex index, read_pack_index(folder));
  PENSTOCK_TRY(check_file_sizes(folder, index));
  Checkpoint checkpoint{.kind = SourceKind::kPack,
                        .path = folder,
                        .name = fs::absolute(folder).lexically_normal().filename().string(),
                        .spec = std::move(index.spec),
                        .generation = std::move(index.generation)};
  PENSTOCK_ASSIGN(checkpoint.tokenizer, read_tokenizer(folder, index));
  for (const PackFile& file : index.files) checkpoint.files.push_back(folder / file.name);
  for (PackRegion& region : index.regions) {
    checkpoint.regions.push_back(region);
    for (PackTensor& tensor : region.tensors) {
      checkpoint.tensors.emplace(std::move(tensor.name), std::move(tensor.stored));
    }
  }
  if (auto complete = check_tensors(checkpoint.spec, checkpoint.tensors); !complete) {
    return std::unexpected(complete.error().in(folder.string()));
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (tensor.groups.bytes > 0) PENSTOCK_TRY(check_groups(checkpoint, tensor));
  }
  return checkpoint;
}

Result<void> verify_region(const fs::path& file, const Region& region,
                           std::span<const std::byte> bytes) {
  return compare(file, region, XXH3_64bits(bytes.data(), bytes.size()));
}

Result<void> verify_pack(const Checkpoint& pack, const ProgressFn& progress,
                         const std::stop_token& stop) {
  std::vector<File> files;
  ProgressUpdate update{.stage = "verifying"};
  for (const fs::path& path : pack.files) {
    PENSTOCK_ASSIGN(File opened, File::open(path));
    update.total += opened.size();
    files.push_back(std::move(opened));
  }
  std::vector<std::byte> staging(kPackStagingBytes);
  for (const Region& region : pack.regions) {
    PENSTOCK_ASSIGN(const uint64_t found, hash_extent(files[region.extent.file], region.extent,
                                                      staging, progress, update, stop));
    PENSTOCK_TRY(compare(pack.files[region.extent.file], region, found));
  }
  return {};
}

}  // namespace penstock
