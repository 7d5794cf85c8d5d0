// quantization_config of a config.json: what the tensors of a quantised checkpoint do not say
// themselves.
#include <algorithm>
#include <array>
#include <limits>

#include "checkpoint/hf_config.h"
#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr int64_t kMaxGroup = std::numeric_limits<int32_t>::max();
constexpr std::array<std::string_view, 5> kMethods = {"fp8", "modelopt", "compressed-tensors",
                                                      "gptq", "awq"};

Result<void> read_groups(const HfFields& fields, HfQuantization& quantization) {
  PENSTOCK_ASSIGN(const auto bits, fields.integer({"bits", "w_bit"}, 1, 16));
  PENSTOCK_ASSIGN(const auto group, fields.integer({"group_size", "q_group_size"}, -1, kMaxGroup));
  quantization.bits = bits.value_or(4);
  quantization.group_size = group.value_or(128);
  if (quantization.bits != 4) {
    return fail(ErrorKind::kUnsupported, "{} with {} bits is not supported, expected 4",
                quantization.method, quantization.bits);
  }
  if (quantization.group_size != 0) return {};
  return fail(ErrorKind::kInvalidData, "\"group_size\" is 0, expected -1 or a size");
}

Result<void> read_gptq(const HfFields& fields, HfQuantization& quantization) {
  PENSTOCK_TRY(read_groups(fields, quantization));
  PENSTOCK_ASSIGN(const auto act_order, fields.boolean({"desc_act"}));
  quantization.act_order = act_order.value_or(false);
  PENSTOCK_ASSIGN(const auto format, fields.string({"checkpoint_format"}));
  const std::string name = format.value_or("gptq");
  if (name != "gptq" && name != "gptq_v2") {
    return fail(ErrorKind::kUnsupported,
                "GPTQ checkpoint_format \"{}\" is not supported; those that are: gptq, gptq_v2",
                name);
  }
  quantization.zeros_minus_one = name == "gptq";
  return {};
}

Result<void> read_awq(const HfFields& fields, HfQuantization& quantization) {
  PENSTOCK_TRY(read_groups(fields, quantization));
  PENSTOCK_ASSIGN(auto version, fields.string({"version"}));
  std::string name = version.value_or("gemm");
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  if (name == "gemm") return {};
  return fail(ErrorKind::kUnsupported, "AWQ version \"{}\" is not supported, expected gemm", name);
}

Result<void> read_fp8(const HfFields& fields, HfQuantization& quantization) {
  PENSTOCK_ASSIGN(const auto block, fields.integers({"weight_block_size"}));
  if (block.empty()) return {};
  if (block.size() != 2 || std::ranges::min(block) < 1 || std::ranges::max(block) > kMaxGroup) {
    return fail(ErrorKind::kInvalidData,
                "\"weight_block_size\" is [{}], expected a height and a width",
                fmt::join(block, ", "));
  }
  quantization.block_rows = static_cast<uint32_t>(block[0]);
  quantization.block_cols = static_cast<uint32_t>(block[1]);
  return {};
}

}  // namespace

Result<HfQuantization> hf_quantization(const HfFields& config) {
  HfQuantization quantization;
  const Json* found = config.find({"quantization_config"});
  if (found == nullptr) return quantization;
  if (!found->is_object()) {
    return fail(ErrorKind::kInvalidData, "\"quantization_config\" is {}, expected an object",
                brief(*found));
  }
  const HfFields fields(*found);
  PENSTOCK_ASSIGN(auto method, fields.string({"quant_method"}));
  if (!method) {
    return fail(ErrorKind::kInvalidData, "\"quantization_config\" has no \"quant_method\"");
  }
  quantization.method = *std::move(method);
  if (std::ranges::find(kMethods, quantization.method) == kMethods.end()) {
    return fail(ErrorKind::kUnsupported, "quant_method \"{}\" is not supported; those that are: {}",
                quantization.method, fmt::join(kMethods, ", "));
  }
  if (quantization.method == "gptq") PENSTOCK_TRY(read_gptq(fields, quantization));
  if (quantization.method == "awq") PENSTOCK_TRY(read_awq(fields, quantization));
  if (quantization.method == "fp8") PENSTOCK_TRY(read_fp8(fields, quantization));
  return quantization;
}

}  // namespace penstock
