#include "checkpoint/hf_checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "base/units.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/hf_formats.h"
#include "checkpoint/hf_text.h"
#include "checkpoint/needed_tensors.h"
#include "checkpoint/safetensors_folder.h"
#include "checkpoint/unused_tensors.h"
#include "os/file.h"

namespace penstock {
namespace {

constexpr uint64_t kMaxConfigBytes = 64 * kMiB;
constexpr std::string_view kModelPrefix = "model.";

// Models for text and more put their language part below one of these instead of "model.".
constexpr std::array<std::string_view, 2> kWrapperPrefixes = {"model.language_model.",
                                                              "language_model.model."};

// Finds each tensor the spec needs among those of the folder.
class TableBuilder {
 public:
  TableBuilder(const SafetensorsFolder& folder, const HfConfig& config)
      : folder_(folder), spec_(config.spec), reader_(folder, config.quantization) {
    for (const std::string_view prefix : kWrapperPrefixes) {
      const auto first = folder.tensors.lower_bound(prefix);
      if (first != folder.tensors.end() && first->first.starts_with(prefix)) prefix_ = prefix;
    }
  }

  Result<TensorTable> build() {
    PENSTOCK_TRY(
        for_each_needed(spec_, [this](const NeededTensor& needed) { return add(needed); }));
    return std::move(table_);
  }

  // After build(): what is left over. A layer beyond the spec's that is not for prediction (MTP)
  // means that the config is wrong.
  Result<std::vector<std::string>> notes() const {
    UnusedTensors unused;
    for (const auto& [name, placed] : folder_.tensors) {
      if (reader_.is_used(name)) continue;
      const int layer = layer_of(name);
      if (layer >= spec_.n_layers() && spec_.family != Family::kGlm4Moe) {
        return fail(ErrorKind::kInvalidData,
                    "tensor {} is of layer {}, but config.json says there are {} layers", name,
                    layer, spec_.n_layers());
      }
      unused.add(kind_of(name, layer), name);
    }
    return unused.notes();
  }

 private:
  Result<void> add(const NeededTensor& needed) {
    const std::string module = name_in_folder(hf_module(spec_.family, needed));
    const std::string_view leaf = hf_leaf(needed.part);
    PENSTOCK_ASSIGN(StoredTensor stored,
                    needed.is_vector() ? reader_.plain(fmt::format("{}.{}", module, leaf), needed)
                                       : reader_.matrix(module, needed));
    PENSTOCK_TRY(check_tensor(needed, stored));
    table_.emplace(canonical_name(needed), std::move(stored));
    return {};
  }

  std::string name_in_folder(std::string name) const {
    if (name.starts_with(kModelPrefix)) return name.replace(0, kModelPrefix.size(), prefix_);
    // lm_head, which one kind of wrapper keeps below language_model and the other outside.
    const std::string nested = "language_model." + name;
    return folder_.tensors.lower_bound(nested) != folder_.tensors.end() &&
                   folder_.tensors.lower_bound(nested)->first.starts_with(nested)
               ? nested
               : name;
  }

  int layer_of(std::string_view name) const {
    const std::string layers = std::string(prefix_) + "layers.";
    int layer = -1;
    if (name.starts_with(layers)) {
      std::from_chars(name.data() + layers.size(), name.data() + name.size(), layer);
    }
    return layer;
  }

  std::string_view kind_of(std::string_view name, int layer) const {
    if (layer >= spec_.n_layers()) return "of the multi-token prediction layers";
    if (name.ends_with("rotary_emb.inv_freq")) return "with rotary frequencies";
    if (name.ends_with(".bias")) return "with biases that config.json does not ask for";
    for (const std::string_view end : {".input_scale", ".input_global_scale"}) {
      if (name.ends_with(end)) return "with scales of activations";
    }
    for (const std::string_view end : {".k_scale", ".v_scale"}) {
      if (name.ends_with(end)) return "with scales of the KV cache";
    }
    if (name.ends_with("lm_head.weight")) return "of a head of its own, which is tied here,";
    if (!name.starts_with(prefix_) && !name.starts_with("lm_head")) {
      return "outside the language model";
    }
    return "that this family does not have";
  }

  const SafetensorsFolder& folder_;
  const ModelSpec& spec_;
  HfFormatReader reader_;
  std::string_view prefix_ = kModelPrefix;
  TensorTable table_;
};

Result<HfConfig> read_config(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMaxConfigBytes));
  const auto parse = [&]() -> Result<HfConfig> {
    PENSTOCK_ASSIGN(const Json json, parse_json(text));
    return parse_hf_config(json);
  };
  auto config = parse();
  if (!config) return std::unexpected(config.error().in(path.string()));
  return config;
}

// The folder's own name, for "models/x/" and "." too.
std::string folder_name(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto absolute = std::filesystem::weakly_canonical(folder, ignored);
  return (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
}

}  // namespace

Result<Checkpoint> open_hf(const std::filesystem::path& folder) {
  PENSTOCK_ASSIGN(const HfConfig config, read_config(folder / "config.json"));
  PENSTOCK_ASSIGN(SafetensorsFolder tensors, read_safetensors_folder(folder));
  PENSTOCK_ASSIGN(HfText text, read_hf_text(folder, config));
  TableBuilder builder(tensors, config);
  auto table = builder.build();
  if (!table) return std::unexpected(table.error().in(folder.string()));
  auto unused = builder.notes();
  if (!unused) return std::unexpected(unused.error().in(folder.string()));

  Checkpoint checkpoint{.kind = SourceKind::kHuggingFace,
                        .path = folder,
                        .name = folder_name(folder),
                        .spec = config.spec,
                        .tensors = *std::move(table),
                        .tokenizer = std::move(text.tokenizer),
                        .generation = std::move(text.generation),
                        .notes = std::move(tensors.notes)};
  for (const File& file : tensors.files) checkpoint.files.push_back(file.path());
  for (auto* notes : {&*unused, &text.notes}) {
    std::ranges::move(*notes, std::back_inserter(checkpoint.notes));
  }
  return checkpoint;
}

}  // namespace penstock
