#include "memory/plan/machine.h"

#include <algorithm>

#include "memory/plan/json_record.h"

namespace penstock {
namespace {

constexpr std::string_view kWhat = "machine description";

Result<void> refuse_more(std::string_view part, uint64_t part_bytes, std::string_view whole,
                         uint64_t whole_bytes) {
  if (part_bytes <= whole_bytes) return {};
  return fail(ErrorKind::kInvalidData, "{}: {} is {}, more than {} of {}", kWhat, part,
              format_bytes(part_bytes), whole, format_bytes(whole_bytes));
}

Result<void> check(const Machine& machine) {
  const MachineRam& ram = machine.ram;
  PENSTOCK_TRY(
      refuse_more("ram.available_bytes", ram.available_bytes, "ram.total_bytes", ram.total_bytes));
  if (machine.cpu.n_threads < machine.cpu.n_cores) {
    return fail(ErrorKind::kInvalidData, "{}: cpu.n_threads is {}, fewer than cpu.n_cores, {}",
                kWhat, machine.cpu.n_threads, machine.cpu.n_cores);
  }
  if (machine.gpus.size() > kMostGpus) {
    return fail(ErrorKind::kInvalidData, "{}: there are {} GPUs, expected at most {}", kWhat,
                machine.gpus.size(), kMostGpus);
  }
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const MachineGpu& gpu = machine.gpus[i];
    PENSTOCK_TRY(refuse_more(fmt::format("gpus[{}].vram_free_bytes", i), gpu.vram_free_bytes,
                             "vram_total_bytes", gpu.vram_total_bytes));
  }
  return {};
}

}  // namespace

template <class Self, class Visit>
void MachineKey::visit_fields(Self& self, Visit& visit) {
  visit("cpu", self.cpu);
  visit("memory", self.memory);
  visit("link", self.link);
  visit("driver", self.driver);
  visit("kernel", self.kernel);
}

template <class Self, class Visit>
void MachineRam::visit_fields(Self& self, Visit& visit) {
  visit.required("total_bytes", self.total_bytes);
  visit("available_bytes", self.available_bytes);
  visit("memlock_bytes", self.memlock_bytes);
  visit("swap_bytes", self.swap_bytes);
  visit("read_gb_s", self.read_gb_s);
}

template <class Self, class Visit>
void MachineCpu::visit_fields(Self& self, Visit& visit) {
  visit("n_cores", self.n_cores);
  visit("n_threads", self.n_threads);
  visit("expert_gb_s", self.expert_gb_s);
  visit("attention_gb_s", self.attention_gb_s);
  visit("prefill_tflop_s", self.prefill_tflop_s);
}

template <class Self, class Visit>
void MachineDisk::visit_fields(Self& self, Visit& visit) {
  visit("sequential_gb_s", self.sequential_gb_s);
  visit("random_gb_s", self.random_gb_s);
  visit("small_reads_a_s", self.small_reads_a_s);
}

template <class Self, class Visit>
void MachineGpu::visit_fields(Self& self, Visit& visit) {
  visit("name", self.name);
  visit.required("vram_total_bytes", self.vram_total_bytes);
  visit("vram_free_bytes", self.vram_free_bytes);
  visit("vram_gb_s", self.vram_gb_s);
  visit("host_to_device_gb_s", self.host_to_device_gb_s);
  visit("zero_copy_gb_s", self.zero_copy_gb_s);
  visit("prefill_tflop_s", self.prefill_tflop_s);
}

template <class Self, class Visit>
void Machine::visit_fields(Self& self, Visit& visit) {
  visit("key", self.key);
  visit.required("ram", self.ram);
  visit("cpu", self.cpu);
  visit("pin_quota_bytes", self.pin_quota_bytes);
  visit("disk", self.disk);
  visit("gpus", self.gpus);
}

OrderedJson to_json(const Machine& machine) { return record_to_json(machine); }

Result<Machine> machine_from_json(const Json& json) {
  PENSTOCK_ASSIGN(Machine machine, record_from_json<Machine>(json, kWhat));
  if (!json["ram"].contains("available_bytes")) {
    machine.ram.available_bytes = machine.ram.total_bytes;
  }
  if (!json.contains("cpu") || !json["cpu"].contains("n_threads")) {
    machine.cpu.n_threads = machine.cpu.n_cores;
  }
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    MachineGpu& gpu = machine.gpus[i];
    if (!json["gpus"][i].contains("vram_free_bytes")) gpu.vram_free_bytes = gpu.vram_total_bytes;
  }
  PENSTOCK_TRY(check(machine));
  return machine;
}

Result<Machine> parse_machine(std::string_view text) {
  PENSTOCK_ASSIGN(const Json json, parse_json(text, {.max_depth = 8, .refuse_duplicates = true}));
  return machine_from_json(json);
}

}  // namespace penstock
