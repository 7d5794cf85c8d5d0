#include "checkpoint/gguf_checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_spec.h"
#include "checkpoint/needed_tensors.h"
#include "checkpoint/unused_tensors.h"
#include "os/file.h"

namespace penstock {
namespace {

std::string supported_types() {
  std::vector<std::string_view> names;
  for (uint32_t id = 0; id < 256; ++id) {
    const GgmlType* type = find_ggml_type(id);
    if (type != nullptr && type->format) names.push_back(type->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Finds each tensor the spec needs among those of the files.
class TableBuilder {
 public:
  TableBuilder(std::span<const GgufFile> files, const GgufModel& model, const ModelSpec& spec)
      : files_(files), model_(model), spec_(spec) {}

  Result<TensorTable> build() {
    PENSTOCK_TRY(
        for_each_needed(spec_, [this](const NeededTensor& needed) { return add(needed); }));
    return std::move(table_);
  }

  // After build(): what is left over. A layer beyond the spec's that is not for prediction (MTP)
  // means that the metadata is wrong.
  Result<std::vector<std::string>> notes() const {
    UnusedTensors unused;
    for (const auto& [name, placed] : model_.tensors) {
      if (used_.contains(name) || name == "rope_freqs.weight") continue;
      const int layer = layer_of(name);
      if (layer >= spec_.n_layers() && spec_.family != Family::kGlm4Moe) {
        return fail(ErrorKind::kInvalidData,
                    "tensor {} is of layer {}, but the metadata says there are {} layers", name,
                    layer, spec_.n_layers());
      }
      unused.add(kind_of(name, layer), name);
    }
    return unused.notes();
  }

 private:
  Result<void> add(const NeededTensor& needed) {
    PENSTOCK_ASSIGN(StoredTensor stored, find(needed));
    PENSTOCK_TRY(check_tensor(needed, stored));
    table_.emplace(canonical_name(needed), std::move(stored));
    return {};
  }

  Result<StoredTensor> find(const NeededTensor& needed) {
    const std::string name = gguf_name(spec_.family, needed);
    if (const GgufPlacedTensor* placed = model_.find(name)) {
      used_.insert(placed->tensor.name);
      return needed.expert < 0 ? whole(needed, *placed) : slice(needed, *placed);
    }
    // Mixtral files from before experts were stacked: blk.0.ffn_gate.3.weight
    if (needed.expert >= 0) {
      const std::string_view part = std::string_view(name).substr(0, name.rfind("_exps.weight"));
      if (const auto* placed = model_.find(fmt::format("{}.{}.weight", part, needed.expert))) {
        used_.insert(placed->tensor.name);
        return whole(needed, *placed);
      }
    }
    return fail(ErrorKind::kNotFound, "tensor {} is missing", name);
  }

  // A stack of all experts' matrices: [cols, rows, n_experts].
  Result<StoredTensor> slice(const NeededTensor& needed, const GgufPlacedTensor& placed) {
    const auto n_experts = static_cast<uint64_t>(spec_.moe.n_experts);
    const auto expert = static_cast<uint64_t>(needed.expert);
    PENSTOCK_TRY(check_dims(placed.tensor, {static_cast<uint64_t>(needed.cols),
                                            static_cast<uint64_t>(needed.rows), n_experts}));
    PENSTOCK_ASSIGN(StoredTensor stored, stored_as(needed, placed));
    stored.data.bytes = placed.tensor.bytes / n_experts;
    stored.data.offset += expert * stored.data.bytes;
    PENSTOCK_ASSIGN(stored.scale, scale_of(placed.tensor, expert, n_experts));
    return stored;
  }

  Result<StoredTensor> whole(const NeededTensor& needed, const GgufPlacedTensor& placed) {
    PENSTOCK_TRY(check_dims(placed.tensor, {static_cast<uint64_t>(needed.cols),
                                            static_cast<uint64_t>(needed.rows), 1}));
    PENSTOCK_ASSIGN(StoredTensor stored, stored_as(needed, placed));
    PENSTOCK_ASSIGN(stored.scale, scale_of(placed.tensor, 0, 1));
    return stored;
  }

  static Result<StoredTensor> stored_as(const NeededTensor& needed,
                                        const GgufPlacedTensor& placed) {
    const GgufTensor& tensor = placed.tensor;
    if (!tensor.type->format) {
      return fail(ErrorKind::kUnsupported,
                  "tensor {} is in format {}, which is not supported; formats that are: {}",
                  tensor.name, tensor.type->name, supported_types());
    }
    return StoredTensor{.source_name = tensor.name,
                        .format = *tensor.type->format,
                        .rows = needed.rows,
                        .cols = needed.cols,
                        .data = {placed.file, tensor.offset, tensor.bytes}};
  }

  // Dimensions that are not written count as 1.
  static Result<void> check_dims(const GgufTensor& tensor, std::array<uint64_t, 3> expected) {
    bool equal = tensor.dims.size() < 4 || tensor.dims[3] == 1;
    for (size_t i = 0; i < expected.size(); ++i) {
      equal = equal && (i < tensor.dims.size() ? tensor.dims[i] : 1) == expected[i];
    }
    if (equal) return {};
    const size_t n = expected[2] > 1 ? 3 : expected[1] > 1 ? 2 : 1;
    return fail(ErrorKind::kInvalidData, "tensor {} has shape [{}], but the metadata makes it [{}]",
                tensor.name, fmt::join(tensor.dims, ", "),
                fmt::join(expected.begin(), expected.begin() + n, ", "));
  }

  // NVFP4 keeps one more factor beside the tensor: NAME.scale, one number, or one for each expert.
  Result<float> scale_of(const GgufTensor& tensor, uint64_t expert, uint64_t n_experts) {
    if (!tensor.name.ends_with(".weight")) return 1.0F;
    const std::string base = tensor.name.substr(0, tensor.name.size() - 7);
    const GgufPlacedTensor* placed = model_.find(base + ".scale");
    if (placed == nullptr) return 1.0F;
    used_.insert(placed->tensor.name);
    const auto [at, is_new] = scales_.try_emplace(placed->tensor.name);
    if (is_new) {
      PENSTOCK_ASSIGN(at->second, read_gguf_floats(files_, *placed));
    }
    const std::vector<float>& scales = at->second;
    if (scales.size() != 1 && scales.size() != n_experts) {
      return fail(ErrorKind::kInvalidData, "tensor {} has {} numbers, expected {}",
                  placed->tensor.name, scales.size(), n_experts);
    }
    const float scale = scales[scales.size() == 1 ? 0 : expert];
    if (std::isfinite(scale)) return scale;
    return fail(ErrorKind::kInvalidData, "tensor {} holds {}, expected a finite number",
                placed->tensor.name, scale);
  }

  static int layer_of(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    int layer = -1;
    if (name.starts_with(kPrefix)) {
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
    }
    return layer;
  }

  std::string_view kind_of(std::string_view name, int layer) const {
    if (layer >= spec_.n_layers()) return "of the multi-token prediction layers";
    if (name.starts_with("v.") || name.starts_with("mm.")) return "of the vision tower";
    if (name.ends_with(".input_scale")) return "with scales of activations";
    return "that this architecture does not have";
  }

  std::span<const GgufFile> files_;
  const GgufModel& model_;
  const ModelSpec& spec_;
  TensorTable table_;
  std::set<std::string_view> used_;                   // of the names in model_
  std::map<std::string, std::vector<float>> scales_;  // read so far
};

constexpr std::string_view kTokenizerPrefix = "tokenizer.ggml.";

Result<std::optional<int64_t>> token_id(const GgufMetadata& metadata, std::string_view name) {
  return metadata.integer(fmt::format("{}{}", kTokenizerPrefix, name), 0,
                          std::numeric_limits<uint32_t>::max());
}

// The text of a special token; empty when there is none.
Result<std::string> token_text(const GgufMetadata& metadata, const Json& ggml,
                               std::string_view name) {
  PENSTOCK_ASSIGN(const auto id, token_id(metadata, name));
  const auto tokens = ggml.is_object() ? ggml.find("tokens") : ggml.end();
  if (!id || tokens == ggml.end() || !tokens->is_array()) return std::string();
  if (static_cast<size_t>(*id) >= tokens->size() ||
      !(*tokens)[static_cast<size_t>(*id)].is_string()) {
    return fail(ErrorKind::kInvalidData, "metadata \"{}{}\" is {}, but there are {} tokens",
                kTokenizerPrefix, name, *id, tokens->size());
  }
  return (*tokens)[static_cast<size_t>(*id)].get<std::string>();
}

Result<StoredTokenizer> read_tokenizer(const GgufMetadata& metadata) {
  StoredTokenizer tokenizer;
  PENSTOCK_ASSIGN(const auto kind, metadata.string("tokenizer.ggml.model"));
  if (kind && *kind != "none") tokenizer.ggml = metadata.below(kTokenizerPrefix);
  PENSTOCK_ASSIGN(auto chat_template, metadata.string("tokenizer.chat_template"));
  tokenizer.chat_template = std::move(chat_template).value_or("");
  PENSTOCK_ASSIGN(tokenizer.bos_token, token_text(metadata, tokenizer.ggml, "bos_token_id"));
  PENSTOCK_ASSIGN(tokenizer.eos_token, token_text(metadata, tokenizer.ggml, "eos_token_id"));
  return tokenizer;
}

Result<GenerationDefaults> read_generation(const GgufMetadata& metadata, int64_t vocab_size,
                                           std::vector<std::string>& notes) {
  GenerationDefaults generation;
  const auto usable = [&](std::string_view name) -> Result<std::optional<int32_t>> {
    PENSTOCK_ASSIGN(const auto id, token_id(metadata, name));
    if (!id) return std::nullopt;
    if (*id < vocab_size) return static_cast<int32_t>(*id);
    notes.push_back(fmt::format("metadata \"{}{}\" is ignored: {} is outside the vocabulary of {}",
                                kTokenizerPrefix, name, *id, vocab_size));
    return std::nullopt;
  };
  PENSTOCK_ASSIGN(generation.bos_id, usable("bos_token_id"));
  for (const std::string_view name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    PENSTOCK_ASSIGN(const auto id, usable(name));
    if (id && std::ranges::find(generation.eos_ids, *id) == generation.eos_ids.end()) {
      generation.eos_ids.push_back(*id);
    }
  }
  return generation;
}

// "SmolLM2.Q4_1", and for a split model the name its files share.
std::string model_name(std::span<const GgufFile> files) {
  std::string name = files[0].path.stem().string();
  if (files.size() > 1) name.resize(name.size() - std::string_view("-00001-of-00001").size());
  return name;
}

}  // namespace

Result<Checkpoint> gguf_checkpoint(std::span<const GgufFile> files) {
  PENSTOCK_ASSIGN(const GgufModel model, join_gguf(files));
  Checkpoint checkpoint{
      .kind = SourceKind::kGguf, .path = files[0].path, .name = model_name(files)};
  for (const GgufFile& file : files) checkpoint.files.push_back(file.path);
  const std::string path = files[0].path.string();

  auto filled = [&]() -> Result<void> {
    PENSTOCK_ASSIGN(checkpoint.spec, gguf_spec(files, model));
    TableBuilder builder(files, model, checkpoint.spec);
    PENSTOCK_ASSIGN(checkpoint.tensors, builder.build());
    PENSTOCK_ASSIGN(checkpoint.notes, builder.notes());
    const GgufMetadata metadata(model.metadata);
    PENSTOCK_ASSIGN(checkpoint.tokenizer, read_tokenizer(metadata));
    PENSTOCK_ASSIGN(checkpoint.generation,
                    read_generation(metadata, checkpoint.spec.vocab_size, checkpoint.notes));
    return {};
  }();
  if (!filled) return std::unexpected(filled.error().in(path));
  return checkpoint;
}

Result<Checkpoint> open_gguf(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const auto paths, gguf_split_paths(path));
  std::vector<Mapping> mappings;
  std::vector<GgufFile> files;
  for (const auto& part : paths) {
    PENSTOCK_ASSIGN(Mapping mapping, Mapping::open(part));
    files.push_back({part, mapping.bytes()});
    mappings.push_back(std::move(mapping));
  }
  return gguf_checkpoint(files);
}

}  // namespace penstock
