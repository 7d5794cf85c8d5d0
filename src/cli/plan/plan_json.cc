#include "cli/plan/plan_json.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>

namespace penstock {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

OrderedJson to_json(const PredictedRate& rate) {
  OrderedJson json = {{"tok_s", rate.tok_s ? OrderedJson(*rate.tok_s) : OrderedJson()},
                      {"bound", rate.tok_s ? OrderedJson(to_string(rate.bound)) : OrderedJson()},
                      {"unknown", OrderedJson::array()}};
  for (const Rate missing : rate.unknown) json["unknown"].push_back(field_of(missing));
  return json;
}

OrderedJson to_json(const std::vector<PlanPart>& parts) {
  OrderedJson json = OrderedJson::array();
  for (const PlanPart& part : parts) {
    json.push_back({{"item", to_string(part.item)},
                    {"place", lower_case(to_string(part.place))},
                    {"bytes", part.bytes}});
  }
  return json;
}

OrderedJson to_json(const Plan& plan) {
  OrderedJson layers = OrderedJson::array();
  for (const PlannedLayer& layer : plan.layers) {
    layers.push_back({{"bank", layer.bank ? OrderedJson(to_string(*layer.bank)) : OrderedJson()},
                      {"vram_slots", layer.uses_vram_slots}});
  }
  const bool has_pin_limit = plan.pin_budget != std::numeric_limits<uint64_t>::max();
  return {{"gpu", plan.gpu ? OrderedJson(*plan.gpu) : OrderedJson()},
          {"kv_tokens", plan.kv_tokens},
          {"vram_slots", plan.vram_slots},
          {"ram_slots", plan.ram_slots},
          {"slot_bytes", plan.slot_bytes},
          {"rows", to_string(plan.rows)},
          {"ram_bytes", plan.ram_bytes},
          {"ram_budget", plan.ram_budget},
          {"vram_bytes", plan.vram_bytes},
          {"vram_budget", plan.vram_budget},
          {"pinned_bytes", plan.pinned_bytes},
          {"pin_budget", has_pin_limit ? OrderedJson(plan.pin_budget) : OrderedJson()},
          {"locked_bytes", plan.locked_bytes},
          {"decode", to_json(plan.prediction.decode)},
          {"prefill", to_json(plan.prediction.prefill)},
          {"vram_hit_rate", plan.prediction.vram_hit_rate},
          {"ram_hit_rate", plan.prediction.ram_hit_rate},
          {"layers", layers},
          {"parts", to_json(plan.parts)},
          {"notes", plan.notes}};
}

}  // namespace

OrderedJson plan_json(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives) {
  OrderedJson others = OrderedJson::array();
  for (const Alternative& other : alternatives) {
    OrderedJson json = {{"change", other.change}, {"fits", other.plan.has_value()}};
    if (other.plan) {
      json["kv_tokens"] = other.plan->kv_tokens;
      json["decode"] = to_json(other.plan->prediction.decode);
      json["prefill"] = to_json(other.plan->prediction.prefill);
    } else {
      json["shortfall"] = other.shortfall;
    }
    others.push_back(std::move(json));
  }
  return {{"model", to_json(demands)},
          {"machine", to_json(machine)},
          {"plan", to_json(plan)},
          {"alternatives", others}};
}

OrderedJson shortfall_json(const Shortfall& shortfall, const ModelDemands& demands,
                           const Machine& machine) {
  return {{"model", to_json(demands)},
          {"machine", to_json(machine)},
          {"shortfall",
           {{"place", lower_case(to_string(shortfall.place))},
            {"needed_bytes", shortfall.needed_bytes},
            {"budget_bytes", shortfall.budget_bytes},
            {"missing_bytes", shortfall.missing_bytes()},
            {"parts", to_json(shortfall.parts)},
            {"sentence", shortfall.sentence()},
            {"fix", shortfall.fix}}}};
}

}  // namespace penstock
