#include "model/gpu/gpu_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/attention/attention_gpu.h"
#include "kernels/router/router_gpu.h"
#include "memory/stored_matrix.h"

namespace penstock {

template <class Multiply>
Result<void> GpuLinear::for_each_part(GpuRows<float> y, Multiply multiply) const {
  for (const Part& part : parts) {
    const auto n_rows = static_cast<size_t>(part.matrix.shape.rows);
    const auto first = static_cast<size_t>(part.first_row);
    const GpuRows<float> of_part = {y.data.subspan(first, y.data.size() - first), y.n_rows,
                                    part.matrix.shape.rows, y.stride};
    PENSTOCK_TRY(multiply(part.matrix, bias.empty() ? bias : bias.subspan(first, n_rows), of_part));
  }
  return {};
}

Result<void> GpuLinear::multiply(const GpuQueue& queue, GpuRows<const uint16_t> x, GpuRows<float> y,
                                 bool adds) const {
  return for_each_part(y,
                       [&](const GpuMatrix& w, DeviceSpan<const float> of_bias, GpuRows<float> to) {
                         return gpu_matmul(queue, w, x, of_bias, to, adds);
                       });
}

Result<void> GpuLinear::multiply_normed(const GpuQueue& queue, const GpuNormed& x,
                                        GpuRows<uint16_t> h, GpuRows<float> y) const {
  const bool at_once = std::ranges::all_of(
      parts, [&](const Part& part) { return can_norm_at_once(part.matrix, x.x.n_rows); });
  if (!at_once) {
    PENSTOCK_TRY(gpu_rms_norm(queue, x.x, {}, x.weight, x.eps, h, {}));
    return multiply(queue, h, y, /*adds=*/false);
  }
  return for_each_part(y,
                       [&](const GpuMatrix& w, DeviceSpan<const float> of_bias, GpuRows<float> to) {
                         return gpu_norm_matmul(queue, w, x, of_bias, to, /*adds=*/false);
                       });
}

namespace {

constexpr size_t kAlignment = 256;

// The same matrix without its bytes.
MatrixView view_without_bytes(const StoredTensor& tensor) {
  return matrix_of(tensor, [](const Extent&) { return std::span<const std::byte>{}; });
}

Result<const StoredTensor*> find(const Checkpoint& checkpoint, std::string_view name) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end()) {
    return fail(ErrorKind::kInvalidData, "{} has no tensor \"{}\"", checkpoint.name, name);
  }
  return &found->second;
}

Result<void> check_format(const StoredTensor& tensor) {
  if (gpu_format_name(view_without_bytes(tensor))) return {};
  return fail(
      ErrorKind::kUnsupported,
      "no GPU kernel multiplies the format {} of tensor \"{}\"; --gpu none runs the model on "
      "the CPU",
      info(tensor.format).name, tensor.source_name);
}

// Whether rows of the one can follow rows of the other in one matrix.
bool can_follow(const StoredTensor& first, const StoredTensor& next) {
  return first.format == next.format && first.cols == next.cols && first.scale == next.scale &&
         first.scale_format == next.scale_format && first.group_cols == next.group_cols &&
         first.block_rows == next.block_rows &&
         (first.format != Format::kFp8Block || first.rows % first.block_rows == 0);
}

// Where an expert's bytes are in its slot; the same for all experts of a layer.
struct SlotLayout {
  std::array<GpuExpertPart, 3> parts = {};  // gate, up, down
  size_t bytes = 0;

  static SlotLayout of(std::span<const StoredTensor* const> matrices) {
    SlotLayout layout;
    const auto take = [&](uint64_t bytes) {
      const auto at = static_cast<uint32_t>(layout.bytes);
      if (bytes > 0) layout.bytes += round_up(bytes + kGpuMatrixSlack, uint64_t{kAlignment});
      return at;
    };
    for (size_t i = 0; i < matrices.size(); ++i) {
      layout.parts[i].data = take(matrices[i]->data.bytes);
      layout.parts[i].scales = take(matrices[i]->scales.bytes);
    }
    return layout;
  }
};

struct ExpertTensors {
  std::array<const StoredTensor*, 3> matrices = {};  // gate, up, down
};

Result<ExpertTensors> expert_tensors(const Checkpoint& checkpoint, int layer, int expert) {
  constexpr std::array<std::string_view, 3> kNames = {"gate", "up", "down"};
  ExpertTensors tensors;
  for (size_t i = 0; i < kNames.size(); ++i) {
    PENSTOCK_ASSIGN(tensors.matrices[i], find(checkpoint, fmt::format("layers.{}.experts.{}.{}",
                                                                      layer, expert, kNames[i])));
    PENSTOCK_TRY(check_format(*tensors.matrices[i]));
  }
  return tensors;
}

bool is_alike(const StoredTensor& a, const StoredTensor& b) {
  return a.format == b.format && a.rows == b.rows && a.cols == b.cols &&
         a.scale_format == b.scale_format && a.group_cols == b.group_cols &&
         a.block_rows == b.block_rows && a.data.bytes == b.data.bytes &&
         a.scales.bytes == b.scales.bytes;
}

// All experts of a layer have the first one's shapes and formats, and gate has up's.
Result<ExpertTensors> check_experts(const Checkpoint& checkpoint, int layer, int n_experts) {
  PENSTOCK_ASSIGN(const ExpertTensors first, expert_tensors(checkpoint, layer, 0));
  for (int expert = 0; expert < n_experts; ++expert) {
    PENSTOCK_ASSIGN(const ExpertTensors other, expert_tensors(checkpoint, layer, expert));
    for (size_t i = 0; i < 3; ++i) {
      const StoredTensor& like = *first.matrices[i == 1 ? 0 : i];
      if (is_alike(like, *other.matrices[i])) continue;
      return fail(ErrorKind::kUnsupported,
                  "tensor \"{}\" has another format than \"{}\", and the GPU takes experts of a "
                  "layer in one; --gpu none runs the model on the CPU",
                  other.matrices[i]->source_name, like.source_name);
    }
  }
  return first;
}

}  // namespace

// Decides where everything goes, then copies it there. Without memory it only counts.
class GpuWeights::Placement {
 public:
  Placement(const Checkpoint& checkpoint, const DecoderParts& parts)
      : checkpoint_(checkpoint), parts_(parts) {}

  // Copies into `memory` and `pool` from now on.
  void copy_to(const GpuQueue& queue, DeviceBytes memory, DeviceBytes pool,
               const WeightStore& weights, const ProgressFn& progress) {
    queue_ = &queue;
    memory_ = memory;
    pool_ = pool;
    weights_ = &weights;
    progress_ = &progress;
  }

  Result<std::vector<GpuLayerWeights>> place_layers() {
    std::vector<GpuLayerWeights> layers;
    PENSTOCK_ASSIGN(slot_bytes_, find_slot_bytes());
    for (size_t i = 0; i < parts_.size(); ++i) {
      PENSTOCK_ASSIGN(GpuLayerWeights layer, place_layer(static_cast<int>(i)));
      layers.push_back(std::move(layer));
    }
    return layers;
  }
  Result<GpuMatrix> place_head() {
    const std::string name = checkpoint_.spec.tied_head ? "embed" : "head";
    PENSTOCK_ASSIGN(const GpuLinear head, place({name}, {}));
    return head.parts.front().matrix;
  }
  Result<DeviceSpan<const float>> place_vector(const std::string& name) {
    return place_vectors({name});
  }
  // Room behind the last span, which kernels may read.
  size_t bytes() const { return n_bytes_ + kAlignment; }
  size_t slot_bytes() const { return slot_bytes_; }
  size_t pool_bytes() const { return static_cast<size_t>(n_slots_) * slot_bytes_; }

 private:
  size_t take(size_t bytes) {
    const size_t at = n_bytes_;
    n_bytes_ += round_up(bytes + kGpuMatrixSlack, kAlignment);
    return at;
  }
  bool is_copying() const { return queue_ != nullptr; }
  DeviceBytes at(size_t offset, size_t bytes) const {
    return is_copying() ? memory_.subspan(offset, bytes) : DeviceBytes(DeviceId{}, {}, bytes);
  }

  Result<void> copy(DeviceBytes to, std::span<const std::byte> from) {
    if (!is_copying() || from.empty()) return {};
    PENSTOCK_TRY(
        settled(*queue_->driver, queue_->driver->copy_to_device(to, from, queue_->stream)));
    n_copied_ += from.size();
    if (*progress_) {
      (*progress_)({.stage = "copying weights to the GPU",
                    .done = n_copied_,
                    .total = memory_.size() + pool_.size()});
    }
    return {};
  }
  // As copy, from memory that goes away.
  Result<void> copy_now(DeviceBytes to, std::span<const std::byte> from) {
    PENSTOCK_TRY(copy(to, from));
    if (!is_copying()) return {};
    return settled(*queue_->driver, queue_->driver->synchronise(queue_->stream));
  }
  Result<MatrixView> bytes_of(const std::string& name) const {
    if (!is_copying()) return MatrixView{};
    return weights_->matrix(name);
  }

  // The matrices, one after the other where they can be, and their biases.
  Result<GpuLinear> place(const std::vector<std::string>& names,
                          const std::vector<std::string>& biases) {
    GpuLinear linear;
    for (size_t first = 0; first < names.size();) {
      size_t end = first;
      std::vector<const StoredTensor*> run;
      while (end < names.size()) {
        PENSTOCK_ASSIGN(const StoredTensor* const tensor, find(checkpoint_, names[end]));
        PENSTOCK_TRY(check_format(*tensor));
        if (!run.empty() && !can_follow(*run.back(), *tensor)) break;
        run.push_back(tensor);
        ++end;
      }
      PENSTOCK_ASSIGN(const GpuMatrix matrix,
                      place_run(run, std::span(names).subspan(first, end - first)));
      linear.parts.push_back({matrix, linear.rows});
      linear.rows += matrix.shape.rows;
      first = end;
    }
    PENSTOCK_ASSIGN(linear.bias, place_vectors(biases));
    return linear;
  }

  Result<GpuMatrix> place_run(std::span<const StoredTensor* const> run,
                              std::span<const std::string> names) {
    MatrixView whole = view_without_bytes(*run.front());
    whole.rows = 0;
    size_t data_bytes = 0;
    size_t scale_bytes = 0;
    for (const StoredTensor* const tensor : run) {
      whole.rows += tensor->rows;
      data_bytes += tensor->data.bytes;
      scale_bytes += tensor->scales.bytes;
    }
    GpuMatrix matrix = {.format = whole.format,
                        .data = at(take(data_bytes), data_bytes),
                        .shape = gpu_shape(whole)};
    if (scale_bytes > 0) matrix.scales = at(take(scale_bytes), scale_bytes);
    size_t data_at = 0;
    size_t scales_at = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      PENSTOCK_ASSIGN(const MatrixView from, bytes_of(names[i]));
      const auto to = [](ConstDeviceBytes span, size_t offset, size_t bytes) {
        return DeviceBytes(span.device(), span.address() + offset, bytes);
      };
      PENSTOCK_TRY(copy(to(matrix.data, data_at, from.data.size()), from.data));
      PENSTOCK_TRY(copy(to(matrix.scales, scales_at, from.scales.size()), from.scales));
      data_at += run[i]->data.bytes;
      scales_at += run[i]->scales.bytes;
    }
    return matrix;
  }

  // Vectors end to end, widened to float32.
  Result<DeviceSpan<const float>> place_vectors(const std::vector<std::string>& names) {
    if (names.empty()) return DeviceSpan<const float>{};
    std::vector<float> values;
    for (const std::string& name : names) {
      PENSTOCK_ASSIGN(const StoredTensor* const tensor, find(checkpoint_, name));
      if (!is_copying()) {
        values.resize(values.size() + static_cast<size_t>(tensor->cols));
        continue;
      }
      PENSTOCK_ASSIGN(const std::vector<float> part, weights_->vector(name, tensor->cols));
      values.insert(values.end(), part.begin(), part.end());
    }
    return place_numbers(std::span<const float>(values));
  }
  template <class T>
  Result<DeviceSpan<const T>> place_numbers(std::span<const T> values) {
    const DeviceBytes to = at(take(values.size_bytes()), values.size_bytes());
    PENSTOCK_TRY(copy_now(to, std::as_bytes(values)));
    return DeviceSpan<const T>(to.device(), to.address(), values.size());
  }

  Result<GpuLayerWeights> place_layer(int index) {
    const LayerParts& parts = parts_[static_cast<size_t>(index)];
    const std::string prefix = fmt::format("layers.{}.", index);
    GpuLayerWeights layer;
    PENSTOCK_ASSIGN(layer.attention, place_attention(parts.attention, prefix));
    PENSTOCK_ASSIGN(layer.ffn_norm, place_vector(prefix + "ffn_norm"));
    if (const auto* const moe = std::get_if<MoePart>(&parts.ffn)) {
      PENSTOCK_ASSIGN(layer.moe, place_moe(*moe, index, prefix));
    } else {
      PENSTOCK_ASSIGN(layer.dense, place_ffn(prefix, std::get<DensePart>(parts.ffn).bias));
    }
    return layer;
  }

  Result<GpuAttentionWeights> place_attention(const AttentionPart& part,
                                              const std::string& prefix) {
    const auto biases = [&](bool has, std::vector<std::string> names) {
      return has ? std::move(names) : std::vector<std::string>{};
    };
    GpuAttentionWeights attention;
    PENSTOCK_ASSIGN(attention.norm, place_vector(prefix + "attn_norm"));
    PENSTOCK_ASSIGN(
        attention.qkv,
        place({prefix + "q", prefix + "k", prefix + "v"},
              biases(part.qkv_bias, {prefix + "q_bias", prefix + "k_bias", prefix + "v_bias"})));
    PENSTOCK_ASSIGN(attention.output,
                    place({prefix + "o"}, biases(part.o_bias, {prefix + "o_bias"})));
    if (part.qk_norm) {
      PENSTOCK_ASSIGN(attention.q_norm, place_vector(prefix + "q_norm"));
      PENSTOCK_ASSIGN(attention.k_norm, place_vector(prefix + "k_norm"));
    }
    return attention;
  }

  Result<GpuFfnWeights> place_ffn(const std::string& prefix, bool has_bias) {
    const auto biases = [&](std::vector<std::string> names) {
      return has_bias ? std::move(names) : std::vector<std::string>{};
    };
    GpuFfnWeights ffn;
    PENSTOCK_ASSIGN(ffn.gate_up, place({prefix + "gate", prefix + "up"},
                                       biases({prefix + "gate_bias", prefix + "up_bias"})));
    PENSTOCK_ASSIGN(ffn.down, place({prefix + "down"}, biases({prefix + "down_bias"})));
    return ffn;
  }

  Result<GpuMoeWeights> place_moe(const MoePart& part, int index, const std::string& prefix) {
    GpuMoeWeights moe;
    PENSTOCK_ASSIGN(const StoredTensor* const router, find(checkpoint_, prefix + "router"));
    if (!has_gpu_router(router->format)) {
      return fail(
          ErrorKind::kUnsupported,
          "no GPU kernel routes by the format {} of tensor \"{}\"; --gpu none runs the model on "
          "the CPU",
          info(router->format).name, router->source_name);
    }
    const std::string router_name = prefix + "router";
    PENSTOCK_ASSIGN(moe.router, place_run({&router, 1}, {&router_name, 1}));
    if (part.router.has_bias) {
      PENSTOCK_ASSIGN(moe.router_bias, place_vector(prefix + "router_bias"));
    }
    PENSTOCK_TRY(place_experts(part, index, moe));
    if (part.shared_dim > 0) {
      PENSTOCK_ASSIGN(moe.shared, place_ffn(prefix + "shared.", /*has_bias=*/false));
    }
    return moe;
  }

  Result<size_t> find_slot_bytes() {
    size_t bytes = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto* const moe = std::get_if<MoePart>(&parts_[i].ffn);
      if (moe == nullptr) continue;
      PENSTOCK_ASSIGN(const ExpertTensors first,
                      check_experts(checkpoint_, static_cast<int>(i), moe->n_experts));
      bytes = std::max(bytes, SlotLayout::of(first.matrices).bytes);
    }
    return bytes;
  }

  Result<void> place_experts(const MoePart& part, int layer, GpuMoeWeights& moe) {
    PENSTOCK_ASSIGN(const ExpertTensors first, expert_tensors(checkpoint_, layer, 0));
    const SlotLayout layout = SlotLayout::of(first.matrices);
    std::vector<int32_t> slots;
    std::vector<float> factors;
    for (int expert = 0; expert < part.n_experts; ++expert) {
      PENSTOCK_ASSIGN(const ExpertTensors tensors, expert_tensors(checkpoint_, layer, expert));
      PENSTOCK_TRY(copy_expert(layer, expert, layout));
      for (const StoredTensor* const matrix : tensors.matrices) factors.push_back(matrix->scale);
      slots.push_back(n_slots_++);
    }
    GpuExperts& experts = moe.experts;
    experts = {.format = first.matrices[0]->format,
               .down_format = first.matrices[2]->format,
               .gate_up_shape = gpu_shape(view_without_bytes(*first.matrices[0])),
               .down_shape = gpu_shape(view_without_bytes(*first.matrices[2])),
               .gate = layout.parts[0],
               .up = layout.parts[1],
               .down = layout.parts[2],
               .pool = pool_,
               .slot_bytes = slot_bytes_};
    PENSTOCK_ASSIGN(moe.slots, place_numbers(std::span<const int32_t>(slots)));
    PENSTOCK_ASSIGN(experts.factors, place_numbers(std::span<const float>(factors)));
    return {};
  }

  Result<void> copy_expert(int layer, int expert, const SlotLayout& layout) {
    if (!is_copying() || pool_.empty()) return {};
    constexpr std::array<std::string_view, 3> kNames = {"gate", "up", "down"};
    const DeviceBytes slot =
        pool_.subspan(static_cast<size_t>(n_slots_) * slot_bytes_, slot_bytes_);
    for (size_t i = 0; i < kNames.size(); ++i) {
      PENSTOCK_ASSIGN(const MatrixView from,
                      bytes_of(fmt::format("layers.{}.experts.{}.{}", layer, expert, kNames[i])));
      PENSTOCK_TRY(copy(slot.subspan(layout.parts[i].data, from.data.size()), from.data));
      PENSTOCK_TRY(copy(slot.subspan(layout.parts[i].scales, from.scales.size()), from.scales));
    }
    return {};
  }

  const Checkpoint& checkpoint_;
  const DecoderParts& parts_;
  const GpuQueue* queue_ = nullptr;  // null: only counts
  DeviceBytes memory_;
  DeviceBytes pool_;
  const WeightStore* weights_ = nullptr;
  const ProgressFn* progress_ = nullptr;
  size_t n_bytes_ = 0;
  size_t n_copied_ = 0;
  size_t slot_bytes_ = 0;
  int32_t n_slots_ = 0;
};

Result<GpuWeightBytes> GpuWeights::measure(const Checkpoint& checkpoint,
                                           const DecoderParts& parts) {
  Placement placement(checkpoint, parts);
  PENSTOCK_TRY(placement.place_layers());
  PENSTOCK_TRY(placement.place_head());
  PENSTOCK_TRY(placement.place_vector("final_norm"));
  return GpuWeightBytes{.dense = placement.bytes(),
                        .experts = placement.pool_bytes(),
                        .slot = placement.slot_bytes()};
}

Result<GpuWeights> GpuWeights::upload(const GpuQueue& queue, const Checkpoint& checkpoint,
                                      const DecoderParts& parts, const WeightStore& weights,
                                      GpuExpertPlace experts, const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const GpuWeightBytes bytes, measure(checkpoint, parts));
  Driver& driver = *queue.driver;
  PENSTOCK_ASSIGN(DeviceMemory memory, DeviceMemory::allocate(driver, bytes.dense));
  GpuWeights uploaded(std::move(memory));
  uploaded.slot_bytes_ = bytes.slot;
  if (experts == GpuExpertPlace::kAllInSlots && bytes.experts > 0) {
    PENSTOCK_ASSIGN(uploaded.pool_, DeviceMemory::allocate(driver, bytes.experts));
  }
  Placement placement(checkpoint, parts);
  placement.copy_to(queue, uploaded.memory_.bytes(),
                    uploaded.pool_ ? uploaded.pool_->bytes() : DeviceBytes(), weights, progress);
  // Whatever fails: no copy is still on its way when the memory is given back.
  const auto place = [&]() -> Result<void> {
    PENSTOCK_ASSIGN(uploaded.layers_, placement.place_layers());
    PENSTOCK_ASSIGN(uploaded.head_, placement.place_head());
    PENSTOCK_ASSIGN(uploaded.final_norm_, placement.place_vector("final_norm"));
    return {};
  };
  const Result<void> placed = place();
  const Result<void> done = settled(driver, driver.synchronise(queue.stream));
  PENSTOCK_TRY(placed);
  PENSTOCK_TRY(done);
  return uploaded;
}

}  // namespace penstock
