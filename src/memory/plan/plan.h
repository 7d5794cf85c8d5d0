// The plan: where everything of a model will live on a machine and how fast it will be, decided
// before anything is allocated.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/plan/demands.h"
#include "memory/plan/limits.h"
#include "memory/plan/machine.h"
#include "memory/plan/prediction.h"
#include "memory/residency.h"
#include "memory/row_backend.h"

namespace penstock {

struct PlannedLayer {
  std::optional<Residency> bank = {};  // a dense layer has none
  bool uses_vram_slots = false;        // slots in VRAM may hold its experts

  bool operator==(const PlannedLayer&) const = default;
};

enum class Place : uint8_t { kVram, kRam, kDisk };
inline constexpr int kPlaces = static_cast<int>(Place::kDisk) + 1;
std::string_view to_string(Place place);  // "VRAM"

enum class PlanItem : uint8_t {
  kDense,  // all weights but experts, embedding and rows
  kEmbedding,
  kBanks,  // whole
  kSlots,  // for experts whose banks are elsewhere
  kKv,
  kSequences,  // states of fixed size
  kRows,
  kWorkspace,
  kRing,     // prefill's, in VRAM
  kStaging,  // of direct reads
  kReserve,  // left to the rest of the system
};
inline constexpr int kPlanItems = static_cast<int>(PlanItem::kReserve) + 1;
std::string_view to_string(PlanItem item);  // "dense weights"

struct PlanPart {
  PlanItem item = PlanItem::kDense;
  Place place = Place::kRam;
  uint64_t bytes = 0;

  bool operator==(const PlanPart&) const = default;
};

struct Plan {
  std::optional<int> gpu = {};  // index into Machine::gpus
  std::vector<PlannedLayer> layers = {};
  std::vector<PlanPart> parts = {};  // the reserves too; parts of no bytes are left out
  int64_t kv_tokens = 0;
  int64_t vram_slots = 0;
  int64_t ram_slots = 0;
  uint64_t slot_bytes = 0;
  RowBackend rows = RowBackend::kNone;
  // Without the reserves.
  uint64_t ram_bytes = 0;
  uint64_t ram_budget = 0;
  uint64_t vram_bytes = 0;
  uint64_t vram_budget = 0;
  uint64_t pinned_bytes = 0;
  uint64_t pin_budget = 0;  // the greatest number: nothing known limits it
  uint64_t locked_bytes = 0;
  Prediction prediction = {};
  std::vector<std::string> notes = {};  // what is not as one would wish, why, and what helps

  int n_banks(Residency residency) const;
  uint64_t bytes(Place place, PlanItem item) const;
};

// Why nothing can be served, and the least that would change it.
struct Shortfall {
  Place place = Place::kRam;
  uint64_t budget_bytes = 0;
  uint64_t needed_bytes = 0;         // at least
  std::vector<PlanPart> parts = {};  // what those are, in that place
  std::string fix = {};              // "--kv-tokens 4096"; or how much more memory there must be

  uint64_t missing_bytes() const { return needed_bytes - budget_bytes; }
  std::string sentence() const;  // every component in MiB
};

// Pure: no I/O, no memory to speak of, milliseconds. The limits must have passed check_limits.
// Among all ways that fit, the one whose turn (prediction.h) is shortest, so more of anything (RAM,
// VRAM, pins, a faster disk) never makes a turn longer, though it may trade a little decode for
// much prefill or the other way about. That supposes VRAM that is read no slower than RAM. A GPU
// whose memory is too small is left out, unless the limits name it.
std::expected<Plan, Shortfall> make_plan(const ModelDemands& demands, const Machine& machine,
                                         const Limits& limits);

}  // namespace penstock
