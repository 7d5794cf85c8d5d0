// Benchmarks of the kernels, as `penstock bench kernels` runs them: each *_bench.cc beside an
// operation describes its own here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/isa.h"
#include "cpu/pool.h"
#include "kernels/machine_limits/machine_limits.h"
#include "os/memory.h"
#include "tensor/rows.h"

namespace penstock {

// Where an operation finds its weights, keys and values.
enum class BenchMemory : uint8_t {
  kCache,       // the same bytes in every run: in a cache, where they fit
  kHugePages,   // RAM: each run takes the next of more bytes than the caches hold
  kSmallPages,  // the same through 4 KiB OS pages, as in a mapped file
};
std::string_view to_string(BenchMemory memory);  // "cache", "huge", "4 KiB"

// What one run does at least.
struct BenchWork {
  double bytes = 0;       // weights, keys and values read once, activations in and out
  double operations = 0;  // multiplications and additions; 0: not counted
  Arithmetic arithmetic = Arithmetic::kFloat32;  // the units that do them
};

// Large memory, kept from one benchmark to the next, because its first touch takes longer than most
// of them.
class BenchArena {
 public:
  // ring_bytes: what operations that read from RAM go round in.
  explicit BenchArena(size_t ring_bytes) : ring_bytes_(ring_bytes) {}

  size_t ring_bytes() const { return ring_bytes_; }
  // `bytes` of it, 2 MiB aligned, valid until the next call; holds what the last user left.
  std::span<std::byte> take(BenchMemory memory, size_t bytes);

 private:
  size_t ring_bytes_;
  AnonymousMemory normal_, small_;
};

// One run, with the pool's workers.
using BenchRun = std::function<void(Pool& pool)>;

// What most prepare functions do: a Run made of `arguments` that owns its data, with check(pool) to
// compare and run(pool) to time.
template <class Run, class... Arguments>
BenchRun checked_run(Pool& pool, Arguments&&... arguments) {
  const auto run = std::make_shared<Run>(std::forward<Arguments>(arguments)...);
  run->check(pool);
  return [run](Pool& workers) { run->run(workers); };
}

struct KernelBench {
  std::string operation = {};  // "matmul fast"
  std::string format = {};     // of weights, or keys and values; empty: float32 activations only
  BenchMemory memory = BenchMemory::kCache;
  Isa isa = Isa::kScalar;
  int64_t n_tokens = 0;
  BenchWork work = {};
  // Makes the data, runs once and compares the answer with the reference: a wrong one stops the
  // program, for it is not to be timed. What it returns owns the data, but for the arena's.
  std::function<BenchRun(BenchArena& arena, Pool& pool)> prepare = {};

  // "matmul-fast/q4_0/huge/amx/1": operation, format, memory, isa, tokens.
  std::string name() const;
};

// Every benchmark of an isa, in the order of a report.
std::vector<KernelBench> kernel_benches(Isa isa);

// Its parts, in the folders of their operations.
void add_matmul_benches(Isa isa, std::vector<KernelBench>& to);
void add_experts_benches(Isa isa, std::vector<KernelBench>& to);
void add_attention_benches(Isa isa, std::vector<KernelBench>& to);
void add_rms_norm_benches(Isa isa, std::vector<KernelBench>& to);
void add_swiglu_benches(Isa isa, std::vector<KernelBench>& to);
void add_rope_benches(Isa isa, std::vector<KernelBench>& to);
void add_router_benches(Isa isa, std::vector<KernelBench>& to);
void add_logits_benches(Isa isa, std::vector<KernelBench>& to);

}  // namespace penstock
