#include "memory/plan/demands.h"

#include <algorithm>
#include <utility>

#include "memory/plan/json_record.h"

namespace penstock {
namespace {

constexpr std::string_view kWhat = "model demands";
constexpr int kMostExperts = 65536;  // of one layer

std::unexpected<Error> refuse(std::string complaint) {
  return fail(ErrorKind::kInvalidData, "{}: {}", kWhat, complaint);
}

Result<void> check_bank(const BankDemand& bank, size_t index) {
  const std::string path = fmt::format("layers[{}]", index);
  if (bank.n_layers < 1 || bank.n_layers > kMostPlannedLayers) {
    return refuse(fmt::format("{}.n_layers is {}, expected 1 to {}", path, bank.n_layers,
                              kMostPlannedLayers));
  }
  if (bank.n_experts == 0) {
    if (bank.top_k == 0 && bank.expert_bytes == 0) return {};
    return refuse(path + " has top_k or expert_bytes but no n_experts");
  }
  if (bank.n_experts > kMostExperts) {
    return refuse(
        fmt::format("{}.n_experts is {}, expected at most {}", path, bank.n_experts, kMostExperts));
  }
  if (bank.top_k < 1 || bank.top_k > bank.n_experts) {
    return refuse(
        fmt::format("{}.top_k is {}, expected 1 to {}", path, bank.top_k, bank.n_experts));
  }
  if (bank.expert_bytes == 0) return refuse(path + ".expert_bytes is missing");
  return {};
}

// Sums of what passes stay below kMostRecordBytes.
Result<void> check_total(const ModelDemands& demands) {
  double total =
      static_cast<double>(demands.dense_bytes) + static_cast<double>(demands.embed_bytes) +
      static_cast<double>(demands.row_table_bytes) + static_cast<double>(demands.workspace_bytes);
  for (const BankDemand& bank : demands.layers) {
    total += static_cast<double>(bank.n_layers) * bank.n_experts *
             static_cast<double>(bank.expert_bytes);
  }
  if (total <= static_cast<double>(kMostRecordBytes)) return {};
  return refuse(fmt::format("the weights are {:.3g} bytes in all, expected at most {}", total,
                            format_bytes(kMostRecordBytes)));
}

Result<void> check(const ModelDemands& demands) {
  constexpr uint64_t kMostKvBytes = kGiB;
  constexpr int kMostChunk = 1 << 20;
  if (demands.layers.empty()) return refuse("layers is empty");
  for (size_t i = 0; i < demands.layers.size(); ++i) {
    PENSTOCK_TRY(check_bank(demands.layers[i], i));
  }
  if (demands.n_layers() > kMostPlannedLayers) {
    return refuse(fmt::format("there are {} layers, expected at most {}", demands.n_layers(),
                              kMostPlannedLayers));
  }
  if (demands.context_length < 1 || demands.context_length > kMostContextTokens) {
    return refuse(fmt::format("context_length is {}, expected 1 to {}", demands.context_length,
                              kMostContextTokens));
  }
  for (const auto& [field, bytes] : {std::pair("kv_bytes_a_token", demands.kv_bytes_a_token),
                                     std::pair("sequence_bytes", demands.sequence_bytes)}) {
    if (bytes <= kMostKvBytes) continue;
    return refuse(fmt::format("{} is {}, expected at most {}", field, format_bytes(bytes),
                              format_bytes(kMostKvBytes)));
  }
  if (demands.chunk_tokens < 1 || demands.chunk_tokens > kMostChunk) {
    return refuse(
        fmt::format("chunk_tokens is {}, expected 1 to {}", demands.chunk_tokens, kMostChunk));
  }
  return check_total(demands);
}

}  // namespace

int ModelDemands::n_layers() const {
  int64_t n = 0;
  for (const BankDemand& bank : layers) n += bank.n_layers;
  return static_cast<int>(std::min<int64_t>(n, kMostPlannedLayers + 1));
}

int64_t ModelDemands::n_experts() const {
  int64_t n = 0;
  for (const BankDemand& bank : layers) n += int64_t{bank.n_layers} * bank.n_experts;
  return n;
}

uint64_t ModelDemands::banks_bytes() const {
  uint64_t bytes = 0;
  for (const BankDemand& bank : layers) {
    bytes += static_cast<uint64_t>(bank.n_layers) * bank.bank_bytes();
  }
  return bytes;
}

uint64_t ModelDemands::bytes() const {
  return dense_bytes + embed_bytes + row_table_bytes + banks_bytes();
}

template <class Self, class Visit>
void BankDemand::visit_fields(Self& self, Visit& visit) {
  visit("n_layers", self.n_layers);
  visit("n_experts", self.n_experts);
  visit("top_k", self.top_k);
  visit("expert_bytes", self.expert_bytes);
  visit("expert_params", self.expert_params);
  visit("format", self.format);
}

template <class Self, class Visit>
void ModelDemands::visit_fields(Self& self, Visit& visit) {
  visit.required("name", self.name);
  visit.required("context_length", self.context_length);
  visit.required("dense_bytes", self.dense_bytes);
  visit("dense_params", self.dense_params);
  visit("dense_format", self.dense_format);
  visit("embed_bytes", self.embed_bytes);
  visit.required("layers", self.layers);
  visit.required("kv_bytes_a_token", self.kv_bytes_a_token);
  visit("kv_format", self.kv_format);
  visit("sequence_bytes", self.sequence_bytes);
  visit("row_table_bytes", self.row_table_bytes);
  visit("rows_a_token", self.rows_a_token);
  visit("workspace_bytes", self.workspace_bytes);
  visit("chunk_tokens", self.chunk_tokens);
}

OrderedJson to_json(const ModelDemands& demands) { return record_to_json(demands); }

Result<ModelDemands> demands_from_json(const Json& json) {
  PENSTOCK_ASSIGN(ModelDemands demands, record_from_json<ModelDemands>(json, kWhat));
  PENSTOCK_TRY(check(demands));
  return demands;
}

Result<ModelDemands> parse_demands(std::string_view text) {
  PENSTOCK_ASSIGN(const Json json, parse_json(text, {.max_depth = 8, .refuse_duplicates = true}));
  return demands_from_json(json);
}

}  // namespace penstock
