// Any bytes are a routing record or say what is wrong with them; a record is written as it was
// read, and can be replayed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "memory/forecast_policy.h"
#include "memory/routing/replay.h"
#include "memory/routing/routing_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto record =
      RoutingRecord::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!record) return 0;
  PENSTOCK_CHECK(RoutingRecord::parse(record->text()) == *record, "another record");
  constexpr int64_t kManyExperts = 4096;  // beyond them a replay of nothing takes long
  const RoutingRecord::Shape& shape = record->shape();
  if (int64_t{shape.n_layers} * shape.n_experts > kManyExperts) return 0;
  constexpr int64_t kSlots = 3;
  const ReplayResult result =
      replay(*record, kSlots,
             std::make_unique<ForecastPolicy>(shape.n_layers, shape.n_experts, shape.top_k));
  PENSTOCK_CHECK(
      result.prefill.n_uses + result.decode.n_uses == static_cast<int64_t>(record->n_uses()),
      "uses got lost");
  return 0;
}
