// Models and machines to plan for, and what every plan must obey whatever made it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/units.h"
#include "memory/plan/plan.h"
#include "os/file.h"

namespace penstock {

inline std::string plan_case_text(const std::string& name) {
  const auto text =
      read_whole_file(PENSTOCK_SOURCE_DIR "/tests/plan/" + name + ".json", /*max_bytes=*/1 << 20);
  return text ? *text : "";
}
inline ModelDemands planned_model(const std::string& name) {
  const auto demands = parse_demands(plan_case_text("models/" + name));
  EXPECT_TRUE(demands) << demands.error().message;
  return demands.value_or(ModelDemands{});
}
inline Machine planned_machine(const std::string& name) {
  const auto machine = parse_machine(plan_case_text("machines/" + name));
  EXPECT_TRUE(machine) << machine.error().message;
  return machine.value_or(Machine{});
}

// Adds everything up again from the layers and the model: nothing is forgotten, no budget exceeded,
// no limit of the user's broken.
inline void expect_sound(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                         const Limits& limits) {
  std::vector<const BankDemand*> of_layer;
  for (const BankDemand& bank : demands.layers) {
    of_layer.insert(of_layer.end(), static_cast<size_t>(bank.n_layers), &bank);
  }
  ASSERT_EQ(plan.layers.size(), of_layer.size());

  uint64_t by_residency[kResidencies] = {};
  int64_t on_disk = 0;
  int64_t cached = 0;
  for (size_t i = 0; i < of_layer.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    ASSERT_EQ(layer.bank.has_value(), of_layer[i]->n_experts > 0) << "layer " << i;
    if (!layer.bank) continue;
    by_residency[static_cast<int>(*layer.bank)] += of_layer[i]->bank_bytes();
    if (layer.bank == Residency::kDisk) on_disk += of_layer[i]->n_experts;
    if (layer.uses_vram_slots) cached += of_layer[i]->n_experts;
    const int id = static_cast<int>(i);
    if (std::ranges::count(limits.cpu_layers, id) > 0) {
      EXPECT_TRUE(layer.bank != Residency::kVram && layer.bank != Residency::kPinned &&
                  !layer.uses_vram_slots)
          << "layer " << i << " was to be the CPU's";
    }
    if (std::ranges::count(limits.pin_exempt_layers, id) > 0) {
      EXPECT_NE(layer.bank, Residency::kPinned) << "layer " << i;
    }
  }
  const auto bytes_of = [&](Residency residency) {
    return by_residency[static_cast<int>(residency)];
  };
  const uint64_t in_ram =
      bytes_of(Residency::kPinned) + bytes_of(Residency::kLocked) + bytes_of(Residency::kPageable);
  EXPECT_EQ(plan.bytes(Place::kVram, PlanItem::kBanks), bytes_of(Residency::kVram));
  EXPECT_EQ(plan.bytes(Place::kRam, PlanItem::kBanks), in_ram);
  EXPECT_EQ(plan.bytes(Place::kDisk, PlanItem::kBanks), bytes_of(Residency::kDisk));
  EXPECT_EQ(plan.locked_bytes, bytes_of(Residency::kLocked));

  uint64_t used[kPlaces] = {};
  for (const PlanPart& part : plan.parts) {
    EXPECT_GT(part.bytes, 0u);
    if (part.item != PlanItem::kReserve) used[static_cast<int>(part.place)] += part.bytes;
  }
  const uint64_t ram = used[static_cast<int>(Place::kRam)];
  const uint64_t vram = used[static_cast<int>(Place::kVram)];
  EXPECT_EQ(ram, plan.ram_bytes);
  EXPECT_EQ(vram, plan.vram_bytes);
  EXPECT_LE(ram + ram_reserve(machine, limits), machine.ram.available_bytes);
  EXPECT_LE(vram, plan.vram_budget);
  if (plan.gpu) {
    const MachineGpu& gpu = machine.gpus.at(static_cast<size_t>(*plan.gpu));
    EXPECT_LE(vram + vram_reserve(gpu, limits), gpu.vram_free_bytes);
  } else {
    EXPECT_EQ(vram, 0u);
    EXPECT_EQ(plan.pinned_bytes, 0u);
  }
  EXPECT_LE(plan.pinned_bytes, pin_budget(machine, limits));
  EXPECT_LE(plan.pinned_bytes + plan.locked_bytes,
            machine.ram.memlock_bytes.value_or(std::numeric_limits<uint64_t>::max()));

  // What a model needs is somewhere, whole.
  for (const auto& [item, bytes] : {std::pair(PlanItem::kDense, demands.dense_bytes),
                                    std::pair(PlanItem::kEmbedding, demands.embed_bytes),
                                    std::pair(PlanItem::kWorkspace, demands.workspace_bytes),
                                    std::pair(PlanItem::kRows, demands.row_table_bytes)}) {
    uint64_t planned = 0;
    for (const Place place : {Place::kVram, Place::kRam, Place::kDisk}) {
      planned += plan.bytes(place, item);
    }
    EXPECT_EQ(planned, bytes) << to_string(item);
  }
  int top_k = 0;
  for (const BankDemand* bank : of_layer) top_k = std::max(top_k, bank->top_k);
  if (on_disk > 0) {
    EXPECT_GE(plan.ram_slots, top_k);
  }
  if (cached > 0) {
    EXPECT_GE(plan.vram_slots, top_k);
  }
  if (!limits.expert_slots) {
    EXPECT_LE(plan.ram_slots, std::max<int64_t>(on_disk, top_k));
    EXPECT_LE(plan.vram_slots, std::max<int64_t>(cached, top_k));
  }
  EXPECT_GE(plan.kv_tokens,
            limits.kv_tokens.value_or(std::min<int64_t>(kLeastKvTokens, demands.context_length)));
}

}  // namespace penstock
