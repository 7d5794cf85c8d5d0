#include "checkpoint/tiny_checkpoint_test.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "checkpoint/needed_tensors.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kGroupCols = 32;  // GPTQ and AWQ groups, FP8 block width
constexpr uint32_t kBlockRows = 64;

size_t int4_groups(const StoredTensor& tensor) {
  return (static_cast<size_t>(tensor.cols) + kGroupCols - 1) / kGroupCols;
}

class Filler {
 public:
  Filler(const fs::path& path, uint32_t seed) : file_(path, std::ios::binary), random_(seed) {
    put(std::string(13, '\x5A'));  // so that nothing is aligned
  }

  // Any bytes are codes; those that hold scales are made to be near 1.
  Extent codes(size_t bytes) {
    std::string run(bytes, '\0');
    for (char& c : run) c = static_cast<char>(random_());
    return put(run);
  }
  Extent halves(size_t n) {
    std::string run;
    for (size_t i = 0; i < n; ++i) {
      const uint16_t half = half_near_one();
      run.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
    return put(run);
  }
  Extent repeated(size_t bytes, uint8_t lowest, uint8_t spread) {
    std::string run(bytes, '\0');
    for (char& c : run) c = static_cast<char>(lowest + random_() % spread);
    return put(run);
  }
  Extent floats(size_t n) {
    std::vector<float> values(n);
    std::normal_distribution<float> normal(0.0F, 0.5F);
    for (float& value : values) value = normal(random_);
    return put({reinterpret_cast<const char*>(values.data()), n * sizeof(float)});
  }
  // Each column's GPTQ group, in an order that is not sorted.
  Extent groups(size_t cols, size_t n_groups) {
    std::vector<int32_t> groups(cols);
    for (size_t c = 0; c < cols; ++c) groups[c] = static_cast<int32_t>((c * 7 / 3) % n_groups);
    return put({reinterpret_cast<const char*>(groups.data()), cols * sizeof(int32_t)});
  }
  // ggml blocks: random, with halves near 1 at the given places of each block.
  Extent blocks(size_t bytes, size_t block, std::span<const size_t> halves_at) {
    std::string run(bytes, '\0');
    for (char& c : run) c = static_cast<char>(random_());
    for (size_t at = 0; at < bytes; at += block) {
      for (const size_t half_at : halves_at) {
        const uint16_t half = half_near_one();
        std::memcpy(run.data() + at + half_at, &half, sizeof half);
      }
    }
    return put(run);
  }

 private:
  uint16_t half_near_one() { return static_cast<uint16_t>(0x3800 + random_() % 0x400); }

  Extent put(std::string_view run) {
    file_.write(run.data(), static_cast<std::streamsize>(run.size()));
    const Extent extent{0, offset_, run.size()};
    offset_ += run.size();
    return extent;
  }

  std::ofstream file_;
  std::mt19937 random_;
  uint64_t offset_ = 0;
};

StoredTensor make_tensor(Filler& fill, Format format, const NeededTensor& needed) {
  StoredTensor tensor{.source_name = "source." + canonical_name(needed),
                      .format = format,
                      .rows = needed.rows,
                      .cols = needed.cols};
  const auto rows = static_cast<size_t>(needed.rows);
  const auto cols = static_cast<size_t>(needed.cols);
  const size_t bytes = data_bytes(format, needed.rows, needed.cols).value();
  switch (format) {
    case Format::kF32:
      tensor.data = fill.floats(rows * cols);
      break;
    case Format::kF16:
      tensor.data = fill.halves(rows * cols);
      break;
    case Format::kBF16:
      tensor.data = fill.blocks(bytes, 2, std::vector<size_t>{0});
      break;
    case Format::kQ4_1:
      tensor.data = fill.blocks(bytes, 20, std::vector<size_t>{0, 2});
      break;
    case Format::kQ8_0:
      tensor.data = fill.blocks(bytes, 34, std::vector<size_t>{0});
      break;
    case Format::kNvfp4:
      tensor.data = fill.codes(bytes);
      tensor.scales = fill.repeated(rows * cols / 16, 0x30, 16);
      tensor.scale = 0.375F;
      break;
    case Format::kMxfp4:
      tensor.data = fill.codes(bytes);
      tensor.scales = fill.repeated(rows * cols / 32, 126, 3);
      break;
    case Format::kFp8Block:
      tensor.group_cols = kGroupCols;
      tensor.block_rows = kBlockRows;
      tensor.data = fill.repeated(bytes, 0x20, 0x40);
      tensor.scales = fill.floats((rows + kBlockRows - 1) / kBlockRows * (cols / kGroupCols));
      break;
    case Format::kFp8Channel:
      tensor.scale_format = ScaleFormat::kF16;
      tensor.data = fill.repeated(bytes, 0x20, 0x40);
      tensor.scales = fill.halves(rows);
      break;
    case Format::kGptq4:
      tensor.group_cols = kGroupCols;
      tensor.zeros_minus_one = true;
      tensor.data = fill.codes(bytes);
      tensor.zeros = fill.codes(int4_groups(tensor) * rows / 2);
      tensor.scales = fill.halves(int4_groups(tensor) * rows);
      tensor.groups = fill.groups(cols, int4_groups(tensor));
      break;
    default:
      ADD_FAILURE() << "no filler for " << info(format).name;
  }
  return tensor;
}

ModelSpec tiny_spec() {
  ModelSpec spec;
  spec.vocab_size = 40;
  spec.hidden_dim = 64;
  spec.n_heads = 4;
  spec.n_kv_heads = 2;
  spec.head_dim = 16;
  spec.context_length = 128;
  spec.rope.rotary_dims = 16;
  spec.layers.resize(2);
  return spec;
}

}  // namespace

TestFolder::TestFolder() {
  static int n_made = 0;
  path_ = fs::path(::testing::TempDir()) /
          ("penstock_" + std::to_string(::getpid()) + "_" + std::to_string(n_made++));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

TestFolder::~TestFolder() { fs::remove_all(path_); }

std::vector<std::string> TestFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

ModelSpec tiny_dense_spec() {
  ModelSpec spec = tiny_spec();
  spec.ffn_dim = 192;
  spec.tied_head = true;
  return spec;
}

ModelSpec tiny_moe_spec() {
  ModelSpec spec = tiny_spec();
  spec.family = Family::kMixtral;
  spec.ffn_dim = 96;
  spec.moe = {.n_experts = 4, .top_k = 2, .expert_dim = 96};
  for (LayerSpec& layer : spec.layers) layer.is_moe = true;
  return spec;
}

Checkpoint make_checkpoint(const fs::path& folder, const ModelSpec& spec,
                           const FormatOf& format_of) {
  fs::create_directories(folder);
  write_file(folder / "config.json", R"({"model_type": "tiny"})");
  Checkpoint checkpoint{.path = folder,
                        .name = folder.filename().string(),
                        .spec = spec,
                        .files = {folder / "weights.bin"}};
  checkpoint.tokenizer = {.json = R"({"model": {"type": "BPE"}})",
                          .chat_template = "{{ messages[0].content }}",
                          .bos_token = "<s>",
                          .eos_token = "</s>"};
  checkpoint.generation = {.eos_ids = {2, 7}, .bos_id = 1};
  Filler fill(folder / "weights.bin", /*seed=*/5);
  const auto added = for_each_needed(spec, [&](const NeededTensor& needed) -> Result<void> {
    const std::string name = canonical_name(needed);
    const Format format = needed.is_vector() ? Format::kF32 : format_of(name);
    checkpoint.tensors.emplace(name, make_tensor(fill, format, needed));
    return {};
  });
  EXPECT_TRUE(added);
  return checkpoint;
}

std::vector<std::byte> bytes_of(const Checkpoint& checkpoint, const Extent& extent) {
  std::vector<std::byte> bytes(extent.bytes);
  std::ifstream file(checkpoint.files.at(extent.file), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(extent.offset));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file) << checkpoint.files.at(extent.file) << " at " << extent.offset;
  return bytes;
}

std::vector<float> values_of(const Checkpoint& checkpoint, std::string_view name) {
  const StoredTensor& tensor = checkpoint.tensors.find(name)->second;
  const auto data = bytes_of(checkpoint, tensor.data);
  const auto scales = bytes_of(checkpoint, tensor.scales);
  const auto zeros = bytes_of(checkpoint, tensor.zeros);
  const auto groups = bytes_of(checkpoint, tensor.groups);
  const MatrixView matrix{.format = tensor.format,
                          .rows = tensor.rows,
                          .cols = tensor.cols,
                          .data = data,
                          .scales = scales,
                          .zeros = zeros,
                          .groups = groups,
                          .scale_format = tensor.scale_format,
                          .group_cols = tensor.group_cols,
                          .block_rows = tensor.block_rows,
                          .zeros_minus_one = tensor.zeros_minus_one,
                          .scale = tensor.scale};
  const auto cols = static_cast<size_t>(tensor.cols);
  std::vector<float> values(static_cast<size_t>(tensor.rows) * cols);
  for (int64_t r = 0; r < tensor.rows; ++r) {
    decode_row(matrix, r, std::span(values).subspan(static_cast<size_t>(r) * cols, cols));
  }
  return values;
}

void write_file(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void damage(const fs::path& path, uint64_t offset) {
  std::string content = read_file(path);
  content.at(offset) = static_cast<char>(content.at(offset) ^ 0x10);
  write_file(path, content);
}

}  // namespace penstock
