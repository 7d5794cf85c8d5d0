// Machines as `penstock doctor` may find them, for tests.
#pragma once

#include "base/units.h"
#include "cli/doctor/examination.h"

namespace penstock {

// Where nothing is to be improved.
inline Examination good_machine() {
  Examination of;
  of.system = {.huge_pages = HugePages::kWhoAsks};
  Measurements& measured = of.measured;
  Machine& machine = measured.profile.machine;
  machine.key.cpu = "AMD Ryzen 9 7950X 16-Core Processor, 32 threads";
  machine.ram = {.total_bytes = 64 * kGiB, .available_bytes = 60 * kGiB};
  measured.profile.date = "2026-11-30 22:24";
  measured.profile.disk_folder = "/models";
  measured.locks = {.locked_bytes = 2 * kGiB};
  measured.cpu = CpuMeasurement{.isa = Isa::kAvx512,
                                .n_threads = 16,
                                .read_gb_s = {{1, 38.2}, {2, 55.1}, {4, 61}, {8, 62.5}, {16, 62.1}},
                                .rested_read_gb_s = 61.5,
                                .expert_gb_s = {{"q4_0", 55.1}, {"q4_k", 52.0}, {"bf16", 60.2}},
                                .prefill_tflop_s = 2.13};
  measured.disk = DiskMeasurement{
      .rates = {.sequential_gb_s = 6.9, .random_gb_s = 5.9, .small_reads_a_s = 612345},
      .file_bytes = kGiB,
      .is_direct = true,
      .backend = "io_uring"};
  measured.gpu = GpuMeasurement{.vram = {.free_bytes = 23 * kGiB, .total_bytes = 24 * kGiB},
                                .to_gpu = 25.3,
                                .to_host = 26.1,
                                .experts_to_gpu = 24.7,
                                .pageable_to_gpu = 11.2,
                                .pins = {.pinned_bytes = 8 * kGiB}};
  of.gpus = {.driver = "570.133.20",
             .gpus = {{.name = "NVIDIA GeForce RTX 4090",
                       .link = "PCIe 4.0 x16",
                       .vram_total_bytes = 24 * kGiB,
                       .vram_free_bytes = 23 * kGiB}}};
  return of;
}

}  // namespace penstock
