#include "memory/profile/machine_facts.h"

#include <fmt/ranges.h>

#include <set>

#include "base/units.h"
#include "cpu/topology.h"
#include "os/cpu_name.h"
#include "os/locked_memory.h"
#include "os/memory.h"
#include "os/system_info.h"

namespace penstock {
namespace {

// How many CPUs count too: in a smaller container the same processor is another machine.
MachineKey key_of(const Machine& machine, const GpuReport& gpus) {
  std::vector<std::string> links;
  for (const GpuStatus& gpu : gpus.gpus) links.push_back(fmt::format("{}, {}", gpu.name, gpu.link));
  const uint64_t whole_gib = (machine.ram.total_bytes + kGiB / 2) / kGiB;
  return {.cpu = fmt::format("{}, {} threads", cpu_name(), machine.cpu.n_threads),
          .memory = fmt::format("{} GiB", whole_gib),
          .link = fmt::format("{}", fmt::join(links, "; ")),
          .driver = gpus.driver,
          .kernel = kernel_release()};
}

}  // namespace

Machine machine_facts(const GpuReport& gpus) {
  const Topology topology = usable_topology();
  std::set<int> cores;
  for (const LogicalCpu& cpu : topology.cpus) cores.insert(cpu.core);
  Machine machine;
  machine.ram.total_bytes = total_memory_bytes();
  machine.ram.available_bytes = available_memory_bytes();
  if (const uint64_t limit = memlock_limit(); limit != kNoMemlockLimit) {
    machine.ram.memlock_bytes = limit;
  }
  machine.ram.swap_bytes = swap_bytes();
  machine.cpu.n_cores = static_cast<int>(cores.size());
  machine.cpu.n_threads = static_cast<int>(topology.cpus.size());
  machine.key = key_of(machine, gpus);
  return machine;
}

GpuReport gpus_here() {
  const auto api = load_nvml();
  if (!api) return {};
  return read_gpus(*api).value_or(GpuReport{});
}

}  // namespace penstock
