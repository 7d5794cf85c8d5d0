// Any bytes are a description of a machine, of a model or of both (a profile), or say what is wrong
// with them; what was read is written as it was read, and can be planned for.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "memory/plan/plan.h"
#include "memory/profile/machine_profile.h"

namespace {

using namespace penstock;

// Planned for on a machine of every kind.
void plan_on(const ModelDemands& demands, const Machine& machine) {
  if (!check_limits(demands, machine, {})) return;
  const auto plan = make_plan(demands, machine, {});
  if (!plan) {
    PENSTOCK_CHECK(plan.error().missing_bytes() > 0, "a shortfall of nothing");
    return;
  }
  PENSTOCK_CHECK(plan->ram_bytes <= plan->ram_budget, "more RAM than there is");
  PENSTOCK_CHECK(plan->vram_bytes <= plan->vram_budget, "more VRAM than there is");
}

Machine small_machine() {
  Machine machine;
  machine.ram = {.total_bytes = uint64_t{64} << 30, .available_bytes = uint64_t{48} << 30};
  machine.gpus.push_back(
      {.vram_total_bytes = uint64_t{12} << 30, .vram_free_bytes = uint64_t{11} << 30});
  return machine;
}

ModelDemands small_model() {
  return {.context_length = 8192,
          .dense_bytes = uint64_t{1} << 30,
          .layers = {{.n_layers = 12,
                      .n_experts = 64,
                      .top_k = 4,
                      .expert_bytes = 3'000'000,
                      .format = "q4_0"}},
          .kv_bytes_a_token = 20'000,
          .workspace_bytes = 50'000'000};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto machine = parse_machine(text)) {
    PENSTOCK_CHECK(parse_machine(to_json(*machine).dump()) == *machine, "another machine");
    plan_on(small_model(), *machine);
  }
  if (const auto demands = parse_demands(text)) {
    PENSTOCK_CHECK(parse_demands(to_json(*demands).dump()) == *demands, "another model");
    plan_on(*demands, small_machine());
  }
  if (const auto profile = parse_profile(text)) {
    PENSTOCK_CHECK(parse_profile(to_json(*profile).dump()) == *profile, "another profile");
  }
  return 0;
}
