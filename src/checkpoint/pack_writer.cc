#include "checkpoint/pack_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "checkpoint/upcycle.h"
#include "tensor/codec.h"
#include "tensor/encode.h"

namespace penstock {
namespace {

// Reads the rows of one matrix in float32, in the recipe's order of rows and columns.
class RowReader {
 public:
  RowReader(const MatrixView& matrix, const BlockOrder* row_order, const BlockOrder* col_order)
      : matrix_(matrix), row_order_(row_order), col_order_(col_order) {
    row_.resize(static_cast<size_t>(matrix.cols));
    if (col_order_ != nullptr) reordered_.resize(row_.size());
  }

  std::span<const float> read(int64_t row) {
    decode_row(matrix_, source_row(row), row_);
    if (col_order_ == nullptr) return row_;
    const size_t width = row_.size() / col_order_->size();
    for (size_t i = 0; i < col_order_->size(); ++i) {
      std::copy_n(row_.begin() + static_cast<ptrdiff_t>((*col_order_)[i] * width), width,
                  reordered_.begin() + static_cast<ptrdiff_t>(i * width));
    }
    return reordered_;
  }

  float largest_magnitude() {
    float amax = 0.0F;
    for (int64_t r = 0; r < matrix_.rows; ++r) {
      decode_row(matrix_, r, row_);
      for (const float value : row_) amax = std::max(amax, std::fabs(value));
    }
    return amax;
  }

 private:
  int64_t source_row(int64_t row) const {
    if (row_order_ == nullptr) return row;
    const int64_t height = matrix_.rows / static_cast<int64_t>(row_order_->size());
    return (*row_order_)[static_cast<size_t>(row / height)] * height + row % height;
  }

  MatrixView matrix_;
  const BlockOrder* row_order_;
  const BlockOrder* col_order_;
  std::vector<float> row_;
  std::vector<float> reordered_;
};

// Rows of the grid of scales; 0 where scales have no columns.
int64_t scale_rows(const StoredTensor& tensor) {
  if (tensor.format == Format::kFp8Channel) return 0;
  if (tensor.format != Format::kFp8Block) return tensor.rows;
  return (tensor.rows + tensor.block_rows - 1) / tensor.block_rows;
}

Result<void> write_noise(const TensorRecipe& recipe, const StoredTensor& made, PackSink& sink) {
  PENSTOCK_CHECK(made.format == Format::kF32, "noise is made in float32");
  std::vector<float> row(static_cast<size_t>(made.cols));
  PENSTOCK_TRY(sink.pad_to(made.data.offset));
  for (int64_t r = 0; r < made.rows; ++r) {
    router_noise(*recipe.noise_seed, static_cast<int>(r), row);
    PENSTOCK_TRY(sink.append(std::as_bytes(std::span(row))));
  }
  return {};
}

}  // namespace

void PackSink::FreeHash::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

PackSink::PackSink(OutputFile file, uint64_t done_before, uint64_t total,
                   const ProgressFn& progress, std::stop_token stop)
    : file_(std::move(file)),
      hash_(XXH3_createState()),
      done_before_(done_before),
      total_(total),
      progress_(progress),
      stop_(std::move(stop)) {
  PENSTOCK_CHECK(hash_ != nullptr, "no memory for a hash");
  XXH3_64bits_reset(hash_.get());
  gathered_.reserve(kPackStagingBytes);
}

PackSink::PackSink(PackSink&&) noexcept = default;
PackSink::~PackSink() = default;

Result<PackSink> PackSink::create(const std::filesystem::path& path, uint64_t done_before,
                                  uint64_t total, const ProgressFn& progress,
                                  std::stop_token stop) {
  PENSTOCK_ASSIGN(OutputFile file, OutputFile::create(path));
  return PackSink(std::move(file), done_before, total, progress, std::move(stop));
}

Result<void> PackSink::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kPackStagingBytes - gathered_.size());
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    offset_ += n;
    if (gathered_.size() == kPackStagingBytes) PENSTOCK_TRY(flush());
  }
  return {};
}

Result<void> PackSink::pad_to(uint64_t offset) {
  PENSTOCK_CHECK(offset >= offset_, "padding goes forward");
  static constexpr std::byte kZeros[kPackAlignment] = {};
  while (offset_ < offset) {
    PENSTOCK_TRY(append(std::span(kZeros).first(std::min(offset - offset_, kPackAlignment))));
  }
  return {};
}

Result<void> PackSink::flush() {
  if (stop_.stop_requested()) return fail(ErrorKind::kCancelled, "packing was stopped");
  XXH3_64bits_update(hash_.get(), gathered_.data(), gathered_.size());
  PENSTOCK_TRY(file_.append(gathered_));
  gathered_.clear();
  if (progress_) progress_({"writing", done_before_ + file_.bytes(), total_});
  return {};
}

Result<uint64_t> PackSink::take_hash() {
  PENSTOCK_TRY(flush());
  const uint64_t hash = XXH3_64bits_digest(hash_.get());
  XXH3_64bits_reset(hash_.get());
  return hash;
}

Result<void> PackSink::finish() {
  PENSTOCK_TRY(flush());
  return file_.sync();
}

Result<TensorMaker> TensorMaker::open(const Checkpoint& source) {
  TensorMaker maker;
  for (const std::filesystem::path& path : source.files) {
    PENSTOCK_ASSIGN(File file, File::open(path));
    maker.files_.push_back(std::move(file));
  }
  maker.mappings_.resize(maker.files_.size());
  maker.staging_.resize(kPackStagingBytes);
  return maker;
}

Result<void> TensorMaker::make(const TensorRecipe& recipe, StoredTensor& made, PackSink& sink) {
  const auto done = recipe.noise_seed  ? write_noise(recipe, made, sink)
                    : recipe.encodes() ? encode(recipe, made, sink)
                                       : move(recipe, made, sink);
  if (!done) return std::unexpected(done.error().in(recipe.name));
  return {};
}

// Blocks of rows are contiguous in every run; blocks of columns are parts of each of the run's
// rows.
Result<void> TensorMaker::move(const TensorRecipe& recipe, const StoredTensor& made,
                               PackSink& sink) {
  const StoredTensor& from = recipe.source;
  const auto move_run = [&](const Extent& run, const Extent& to, int64_t rows) -> Result<void> {
    if (run.bytes == 0) return {};
    PENSTOCK_TRY(sink.pad_to(to.offset));
    if (recipe.row_order) return copy_reordered(run, 1, *recipe.row_order, sink);
    if (recipe.col_order && rows > 0) return copy_reordered(run, rows, *recipe.col_order, sink);
    return copy(run, sink);
  };
  PENSTOCK_TRY(move_run(from.data, made.data, from.rows));
  PENSTOCK_TRY(move_run(from.scales, made.scales, scale_rows(from)));
  PENSTOCK_TRY(move_run(from.zeros, made.zeros, 0));  // what has these is never reordered
  return move_run(from.groups, made.groups, 0);
}

Result<void> TensorMaker::copy(Extent from, PackSink& sink) {
  while (from.bytes > 0) {
    const auto chunk = std::span(staging_).first(std::min<uint64_t>(from.bytes, staging_.size()));
    PENSTOCK_TRY(files_[from.file].read_exact(from.offset, chunk));
    PENSTOCK_TRY(sink.append(chunk));
    from.offset += chunk.size();
    from.bytes -= chunk.size();
  }
  return {};
}

// `from` is `n_outer` equal stretches, each of order.size() equal blocks.
Result<void> TensorMaker::copy_reordered(const Extent& from, int64_t n_outer,
                                         const BlockOrder& order, PackSink& sink) {
  const uint64_t outer_bytes = from.bytes / static_cast<uint64_t>(n_outer);
  const uint64_t block_bytes = outer_bytes / order.size();
  if (outer_bytes > staging_.size()) {
    for (uint64_t at = from.offset; at < from.offset + from.bytes; at += outer_bytes) {
      for (const uint32_t block : order) {
        PENSTOCK_TRY(copy({from.file, at + block * block_bytes, block_bytes}, sink));
      }
    }
    return {};
  }
  const uint64_t whole_bytes = staging_.size() / outer_bytes * outer_bytes;
  for (uint64_t done = 0; done < from.bytes; done += whole_bytes) {
    const auto chunk = std::span(staging_).first(std::min(whole_bytes, from.bytes - done));
    PENSTOCK_TRY(files_[from.file].read_exact(from.offset + done, chunk));
    for (size_t at = 0; at < chunk.size(); at += outer_bytes) {
      for (const uint32_t block : order) {
        PENSTOCK_TRY(sink.append(chunk.subspan(at + block * block_bytes, block_bytes)));
      }
    }
  }
  return {};
}

Result<void> TensorMaker::encode(const TensorRecipe& recipe, StoredTensor& made, PackSink& sink) {
  PENSTOCK_ASSIGN(const MatrixView matrix, view(recipe.source));
  RowReader rows(matrix, recipe.row_order.get(), recipe.col_order.get());
  if (made.format == Format::kNvfp4) made.scale = nvfp4_matrix_scale(rows.largest_magnitude());

  const auto n_rows = static_cast<size_t>(made.rows);
  std::vector<std::byte> data(row_bytes(made.format, made.cols));
  std::vector<std::byte> scales(made.scales.bytes);
  const size_t scale_bytes = scales.size() / n_rows;
  PENSTOCK_TRY(sink.pad_to(made.data.offset));
  for (size_t r = 0; r < n_rows; ++r) {
    const auto encoded = encode_row(made.format, rows.read(static_cast<int64_t>(r)), made.scale,
                                    data, std::span(scales).subspan(r * scale_bytes, scale_bytes));
    if (!encoded) {
      return std::unexpected(encoded.error().in(fmt::format("row {}", r)));
    }
    PENSTOCK_TRY(sink.append(data));
  }
  if (scales.empty()) return {};
  PENSTOCK_TRY(sink.pad_to(made.scales.offset));
  return sink.append(scales);
}

Result<std::span<const std::byte>> TensorMaker::view(const Extent& extent) {
  if (extent.bytes == 0) return std::span<const std::byte>{};
  auto& mapping = mappings_[extent.file];
  if (!mapping) {
    PENSTOCK_ASSIGN(mapping, Mapping::open(files_[extent.file].path()));
  }
  const std::span<const std::byte> bytes = mapping->bytes();
  if (extent.offset > bytes.size() || extent.bytes > bytes.size() - extent.offset) {
    return fail(ErrorKind::kInvalidData, "{} has {} bytes, expected {} from {} on",
                files_[extent.file].path().string(), bytes.size(), extent.bytes, extent.offset);
  }
  return bytes.subspan(extent.offset, extent.bytes);
}

Result<MatrixView> TensorMaker::view(const StoredTensor& tensor) {
  MatrixView matrix{.format = tensor.format,
                    .rows = tensor.rows,
                    .cols = tensor.cols,
                    .scale_format = tensor.scale_format,
                    .group_cols = tensor.group_cols,
                    .block_rows = tensor.block_rows,
                    .zeros_minus_one = tensor.zeros_minus_one,
                    .scale = tensor.scale};
  PENSTOCK_ASSIGN(matrix.data, view(tensor.data));
  PENSTOCK_ASSIGN(matrix.scales, view(tensor.scales));
  PENSTOCK_ASSIGN(matrix.zeros, view(tensor.zeros));
  PENSTOCK_ASSIGN(matrix.groups, view(tensor.groups));
  return matrix;
}

}  // namespace penstock
