#include "cli/doctor/examination.h"

#include "os/memory.h"

namespace penstock {

SystemFacts system_facts(const std::filesystem::path& root) {
  return {.is_wsl2 = is_wsl2(root),
          .cgroup_bytes = cgroup_memory_limit(root),
          .swap_bytes = swap_bytes(root),
          .load = load_average(root),
          .huge_pages = huge_pages(root)};
}

std::vector<GpuHolder> gpu_holders(const GpuReport& gpus, const std::filesystem::path& root) {
  std::vector<GpuHolder> holders;
  for (size_t i = 0; i < gpus.gpus.size(); ++i) {
    for (const GpuProcess& process : gpus.gpus[i].processes) {
      GpuHolder& holder = holders.emplace_back(GpuHolder{.gpu = i, .process = process});
      holder.info = process_info(process.pid, root);
      if (holder.info) holder.parent = process_info(holder.info->parent, root);
    }
  }
  return holders;
}

}  // namespace penstock
