#include "memory/expert_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/integers.h"
#include "checkpoint/pack.h"
#include "memory/stored_matrix.h"

namespace penstock {
namespace {

std::array<const Extent*, 4> extents_of(const StoredTensor& tensor) {
  return {&tensor.data, &tensor.scales, &tensor.zeros, &tensor.groups};
}

// What has to be read for one extent.
ExpertLayout::Part part_around(const Extent& extent) {
  const DirectRange range = direct_range_around(extent.offset, extent.bytes);
  return {.file = extent.file,
          .offset = range.offset,
          .bytes = range.bytes,
          .wanted = {extent.offset, extent.offset + extent.bytes}};
}

// Sorted, and those merged that touch: an expert of a pack is one read.
std::vector<ExpertLayout::Part> merged(std::vector<ExpertLayout::Part> parts) {
  std::ranges::sort(parts, {},
                    [](const auto& part) { return std::tie(part.file, part.wanted.begin); });
  std::vector<ExpertLayout::Part> all;
  for (const ExpertLayout::Part& part : parts) {
    if (!all.empty() && all.back().file == part.file &&
        part.offset <= all.back().offset + all.back().bytes) {
      const uint64_t end = std::max(all.back().offset + all.back().bytes, part.offset + part.bytes);
      all.back().bytes = end - all.back().offset;
      all.back().wanted.end = std::max(all.back().wanted.end, part.wanted.end);
    } else {
      all.push_back(part);
    }
  }
  return all;
}

// The region that a part is, if it is one.
std::optional<Region> region_of(const ExpertLayout::Part& part, std::span<const Region> regions) {
  const Extent extent = {.file = part.file, .offset = part.offset, .bytes = part.bytes};
  const auto place = [](const Region& region) {
    return std::tuple(region.extent.file, region.extent.offset);
  };
  const auto found =
      std::ranges::lower_bound(regions, std::tuple(part.file, part.offset), {}, place);
  if (found == regions.end() || found->extent != extent) return std::nullopt;
  return *found;
}

}  // namespace

bool is_expert_tensor(std::string_view name) {
  return name.find(".experts.") != std::string_view::npos;
}

Result<ExpertLayout> ExpertLayout::make(const Checkpoint& checkpoint) {
  LayerSet all(checkpoint.spec.n_layers());
  all.add(0, all.n_layers());
  return make(checkpoint, all);
}

Result<ExpertLayout> ExpertLayout::make(const Checkpoint& checkpoint, const LayerSet& layers) {
  ExpertLayout layout;
  layout.files_ = checkpoint.files;
  const ModelSpec& spec = checkpoint.spec;
  layout.layers_.resize(static_cast<size_t>(spec.n_layers()));
  for (int layer = 0; layer < spec.n_layers(); ++layer) {
    const std::string first = fmt::format("layers.{}.experts.0.gate", layer);
    if (!layers.contains(layer) || !checkpoint.tensors.contains(first)) continue;
    std::vector<Expert>& experts = layout.layers_[static_cast<size_t>(layer)];
    for (int index = 0; index < spec.moe.n_experts; ++index) {
      Expert expert;
      for (size_t i = 0; i < 3; ++i) {
        constexpr std::string_view kMatrices[] = {"gate", "up", "down"};
        const auto name = fmt::format("layers.{}.experts.{}.{}", layer, index, kMatrices[i]);
        const auto found = checkpoint.tensors.find(name);
        if (found == checkpoint.tensors.end()) {
          return fail(ErrorKind::kNotFound, "the checkpoint has no tensor \"{}\"", name);
        }
        expert.tensors[i] = found->second;
      }
      layout.place(expert);
      if (expert.parts.size() == 1) {
        Part& whole = expert.parts[0];
        expert.region = region_of(whole, checkpoint.regions);
        if (expert.region) whole.wanted = {whole.offset, whole.offset + whole.bytes};
      }
      experts.push_back(std::move(expert));
    }
    layout.n_experts_ += std::ssize(experts);
  }
  return layout;
}

int ExpertLayout::n_experts(int layer) const {
  return static_cast<int>(layers_[static_cast<size_t>(layer)].size());
}

size_t ExpertLayout::expert_bytes(ExpertId id) const {
  const Part& last = expert(id).parts.back();
  return last.at + last.bytes;
}

void ExpertLayout::place(Expert& expert) {
  std::vector<Part> parts;
  for (const StoredTensor& tensor : expert.tensors) {
    for (const Extent* extent : extents_of(tensor)) {
      if (extent->bytes == 0) continue;
      parts.push_back(part_around(*extent));
      weight_bytes_ += extent->bytes;
    }
  }
  expert.parts = merged(std::move(parts));
  size_t at = 0;
  for (Part& part : expert.parts) {
    part.at = at;
    at += part.bytes;
  }
  slot_bytes_ = std::max(slot_bytes_, at);
}

ExpertMatrices ExpertLayout::matrices(ExpertId id, std::span<const std::byte> slot) const {
  const Expert& of = expert(id);
  const auto bytes_of = [&](const Extent& extent) {
    const auto part = std::ranges::find_if(of.parts, [&](const Part& each) {
      return each.file == extent.file && each.offset <= extent.offset &&
             extent.offset + extent.bytes <= each.offset + each.bytes;
    });
    PENSTOCK_CHECK(part != of.parts.end(), "an extent that no part covers");
    return slot.subspan(part->at + (extent.offset - part->offset), extent.bytes);
  };
  return {.gate = matrix_of(of.tensors[0], bytes_of),
          .up = matrix_of(of.tensors[1], bytes_of),
          .down = matrix_of(of.tensors[2], bytes_of)};
}

Result<void> ExpertLayout::verify(ExpertId id, std::span<const std::byte> slot) const {
  const Expert& of = expert(id);
  if (!of.region) return {};
  return verify_region(files_[of.region->extent.file], *of.region,
                       slot.first(of.region->extent.bytes));
}

}  // namespace penstock
