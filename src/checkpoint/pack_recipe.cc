#include "checkpoint/pack_recipe.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/integers.h"

namespace penstock {
namespace {

constexpr std::string_view kDenseFile = "dense.bin";
constexpr std::string_view kExpertsFile = "experts.bin";

// Takes "layers.12." off the front of `name` for a prefix "layers."; nullopt if it is not there.
std::optional<int> take_number(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const begin = name.data() + prefix.size();
  const char* const end = name.data() + name.size();
  int number = 0;
  const auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc{} || parsed.ptr == end || *parsed.ptr != '.' || number < 0) {
    return std::nullopt;
  }
  name.remove_prefix(static_cast<size_t>(parsed.ptr + 1 - name.data()));
  return number;
}

// Embedding, layers in order, then the rest; gate, up and down of an expert in that order.
auto file_order(const TensorRecipe& recipe) {
  constexpr int kLast = std::numeric_limits<int>::max();
  std::string_view rest = recipe.name;
  const int layer = recipe.name == "embed" ? -1 : take_number(rest, "layers.").value_or(kLast);
  const auto expert = parse_expert_name(recipe.name);
  const std::string_view parts[] = {"gate", "up", "down"};
  const auto part = expert ? std::ranges::find(parts, expert->part) - std::begin(parts) : 0;
  return std::tuple(expert.has_value(), layer, expert ? expert->expert : 0, part,
                    std::string_view(recipe.name));
}

std::string region_name(const TensorRecipe& recipe) {
  const auto expert = parse_expert_name(recipe.name);
  return expert ? fmt::format("layers.{}.experts.{}", expert->layer, expert->expert) : recipe.name;
}

// What the recipe makes, with the lengths of its runs and no places yet.
StoredTensor product_of(const TensorRecipe& recipe) {
  StoredTensor made = recipe.source;
  if (!recipe.encodes() && !recipe.noise_seed) return made;
  made = {.source_name = recipe.source.source_name,
          .format = recipe.format,
          .rows = recipe.source.rows,
          .cols = recipe.source.cols};
  const MatrixView shape{.format = made.format, .rows = made.rows, .cols = made.cols};
  made.data.bytes = data_bytes(made.format, made.rows, made.cols).value_or(0);
  made.scales.bytes = scales_bytes(shape);
  return made;
}

Result<void> check_recipe(const TensorRecipe& recipe) {
  const StoredTensor& source = recipe.source;
  if (!data_bytes(recipe.format, source.rows, source.cols)) {
    return fail(ErrorKind::kUnsupported,
                "{} cannot become {}: it has {} columns, not a multiple of {}", source.source_name,
                info(recipe.format).name, source.cols, info(recipe.format).group);
  }
  if (recipe.noise_seed) return {};
  if (auto sized = check_sizes(source); !sized) {
    return std::unexpected(sized.error().in(source.source_name));
  }
  return {};
}

// Places a run at the end of the region that grows.
void place(Extent& run, Extent& region) {
  if (run.bytes == 0) return;
  run.file = region.file;
  run.offset = region.offset + round_up(region.bytes, kPackRunAlignment);
  region.bytes = run.offset + run.bytes - region.offset;
}

void add_to_region(TensorRecipe recipe, RegionPlan& plan) {
  PackTensor tensor{.name = recipe.name, .stored = product_of(recipe)};
  place(tensor.stored.data, plan.region.extent);
  place(tensor.stored.scales, plan.region.extent);
  place(tensor.stored.zeros, plan.region.extent);
  place(tensor.stored.groups, plan.region.extent);
  plan.region.tensors.push_back(std::move(tensor));
  plan.recipes.push_back(std::move(recipe));
}

}  // namespace

std::optional<ExpertTensorName> parse_expert_name(std::string_view name) {
  const auto layer = take_number(name, "layers.");
  if (!layer) return std::nullopt;
  const auto expert = take_number(name, "experts.");
  if (!expert) return std::nullopt;
  return ExpertTensorName{.layer = *layer, .expert = *expert, .part = name};
}

Result<void> check_sizes(const StoredTensor& tensor) {
  const MatrixView shape{.format = tensor.format,
                         .rows = tensor.rows,
                         .cols = tensor.cols,
                         .scale_format = tensor.scale_format,
                         .group_cols = tensor.group_cols,
                         .block_rows = tensor.block_rows};
  const std::string_view name = info(tensor.format).name;
  const bool is_int4 = tensor.format == Format::kGptq4 || tensor.format == Format::kAwq4;
  const bool is_block = tensor.format == Format::kFp8Block;
  const auto data = data_bytes(tensor.format, tensor.rows, tensor.cols);
  if (!data) {
    return fail(ErrorKind::kInvalidData, "{} cannot have {} rows of {} columns", name, tensor.rows,
                tensor.cols);
  }
  if ((is_int4 || is_block) && tensor.group_cols == 0) {
    return fail(ErrorKind::kInvalidData, "{} needs group_cols above 0", name);
  }
  if (is_block && tensor.block_rows == 0) {
    return fail(ErrorKind::kInvalidData, "{} needs block_rows above 0", name);
  }

  const auto cols = static_cast<uint64_t>(tensor.cols);
  const uint64_t n_groups = is_int4 ? (cols + tensor.group_cols - 1) / tensor.group_cols : 0;
  const bool has_groups = tensor.format == Format::kGptq4 && tensor.groups.bytes > 0;
  const std::tuple<std::string_view, uint64_t, uint64_t> runs[] = {
      {"data", tensor.data.bytes, *data},
      {"scales", tensor.scales.bytes, scales_bytes(shape)},
      {"zeros", tensor.zeros.bytes, n_groups * static_cast<uint64_t>(tensor.rows) / 2},
      {"groups", tensor.groups.bytes, has_groups ? cols * sizeof(int32_t) : 0},
  };
  for (const auto& [run, found, expected] : runs) {
    if (found != expected) {
      return fail(ErrorKind::kInvalidData, "{} of {} [{}, {}] have {} bytes, expected {}", run,
                  name, tensor.rows, tensor.cols, found, expected);
    }
  }
  return {};
}

uint64_t PackPlan::bytes() const {
  uint64_t sum = 0;
  for (const PackFile& file : files) sum += file.bytes;
  return sum;
}

Result<PackPlan> lay_out(std::vector<TensorRecipe> recipes) {
  for (const TensorRecipe& recipe : recipes) PENSTOCK_TRY(check_recipe(recipe));
  std::ranges::sort(recipes, {}, file_order);

  PackPlan plan;
  for (TensorRecipe& recipe : recipes) {
    const std::string_view file = parse_expert_name(recipe.name) ? kExpertsFile : kDenseFile;
    if (plan.files.empty() || plan.files.back().name != file) {
      plan.files.push_back({.name = std::string(file)});
    }
    std::string region = region_name(recipe);
    const bool is_new = plan.regions.empty() || plan.regions.back().region.name != region;
    if (is_new) {
      RegionPlan next;
      next.region.name = std::move(region);
      next.region.extent = {.file = static_cast<uint32_t>(plan.files.size() - 1),
                            .offset = plan.files.back().bytes};
      plan.regions.push_back(std::move(next));
    }
    RegionPlan& last = plan.regions.back();
    add_to_region(std::move(recipe), last);
    plan.files.back().bytes =
        last.region.extent.offset + round_up(last.region.extent.bytes, kPackAlignment);
  }
  for (RegionPlan& region : plan.regions) {
    region.region.extent.bytes = round_up(region.region.extent.bytes, kPackAlignment);
  }
  return plan;
}

}  // namespace penstock
