#include "cli/bench/kernels_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <regex>

#include "base/units.h"
#include "cli/bench/kernels_report.h"
#include "cli/progress.h"
#include "cpu/pool.h"
#include "os/memory.h"
#include "os/terminal.h"

namespace penstock {
namespace {

// More than any cache, so that what goes round in it comes from RAM.
constexpr size_t kRingBytes = size_t{5} << 28;  // 1.25 GiB
constexpr size_t kQuickRingBytes = size_t{32} << 20;
constexpr int kTableColumns = 100;  // where the output is no terminal

struct KernelsOptions {
  std::string filter = {};
  std::vector<int> threads = {};       // none: as many as this process may use
  std::vector<std::string> isas = {};  // none: the one that commands use
  bool list = false;
  bool quick = false;
  bool json = false;

  size_t ring_bytes() const { return quick ? kQuickRingBytes : kRingBytes; }
  BenchEffort effort() const {
    return quick ? BenchEffort{.n_samples = 2, .sample_seconds = 1e-4} : BenchEffort{};
  }
};

Result<std::vector<Isa>> chosen_isas(const std::vector<std::string>& names) {
  std::vector<Isa> supported = supported_isas();
  if (names.empty()) {
    PENSTOCK_ASSIGN(const Isa best, choose_isa());
    return std::vector<Isa>{best};
  }
  std::vector<Isa> isas;
  for (const std::string& name : names) {
    if (name == "all") return supported;
    const auto isa = std::ranges::find(supported, name, [](Isa each) { return to_string(each); });
    if (isa == supported.end()) {
      std::vector<std::string_view> known(supported.size());
      std::ranges::transform(supported, known.begin(), [](Isa each) { return to_string(each); });
      return fail(ErrorKind::kInvalidArgument, "--isa {}: this machine has {}", name,
                  fmt::join(known, ", "));
    }
    isas.push_back(*isa);
  }
  return isas;
}

// Those whose name has a match of the filter.
Result<std::vector<KernelBench>> chosen_benches(Isa isa, const std::string& filter) {
  std::vector<KernelBench> benches = kernel_benches(isa);
  try {
    const std::regex pattern(filter);
    std::erase_if(benches, [&](const KernelBench& bench) {
      return !std::regex_search(bench.name(), pattern);
    });
  } catch (const std::regex_error& error) {
    return fail(ErrorKind::kInvalidArgument, "--filter {}: no regular expression: {}", filter,
                error.what());
  }
  return benches;
}

Result<void> check_memory(size_t ring_bytes) {
  // Two rings, one for each kind of OS page, and the data of operations beside them.
  const uint64_t needed = 2 * ring_bytes + 512 * kMiB;
  const uint64_t available = available_memory_bytes();
  if (available >= needed) return {};
  return fail(ErrorKind::kExhausted,
              "reading more than the caches hold takes {} of memory, {} are available; --quick "
              "takes {} (and measures caches)",
              format_bytes(needed), format_bytes(available),
              format_bytes(2 * kQuickRingBytes + 512 * kMiB));
}

Result<KernelsRun> measure_all(const std::vector<KernelBench>& benches, Isa isa,
                               const PoolOptions& threads, BenchArena& arena,
                               const BenchEffort& effort, const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const auto pool, Pool::make(threads));
  if (!pool->note().empty()) fmt::print(stderr, "{}\n", pool->note());
  KernelsRun run = {.n_threads = pool->n_workers(), .isa = isa};
  run.machine = measure_machine(*pool, isa, arena, effort);
  const std::string stage = fmt::format("{}, {} threads", to_string(isa), run.n_threads);
  for (const KernelBench& bench : benches) {
    progress({.stage = stage, .done = run.rows.size(), .total = benches.size()});
    run.rows.push_back(measure(bench, *pool, arena, effort));
  }
  progress({.stage = stage, .done = benches.size(), .total = benches.size()});
  // Again, for a quiet moment at either end.
  run.machine = better_of(run.machine, measure_machine(*pool, isa, arena, effort));
  return run;
}

Result<void> run_kernels(const KernelsOptions& options) {
  PENSTOCK_ASSIGN(const std::vector<Isa> isas, chosen_isas(options.isas));
  std::vector<std::vector<KernelBench>> benches;
  size_t n_benches = 0;
  for (const Isa isa : isas) {
    PENSTOCK_ASSIGN(benches.emplace_back(), chosen_benches(isa, options.filter));
    n_benches += benches.back().size();
  }
  if (n_benches == 0) {
    return fail(ErrorKind::kInvalidArgument,
                "--filter {}: no benchmark has such a name (see --list)", options.filter);
  }
  if (options.list) {
    for (const auto& of_isa : benches) {
      for (const KernelBench& bench : of_isa) fmt::print("{}\n", bench.name());
    }
    return {};
  }
  PENSTOCK_TRY(check_memory(options.ring_bytes()));

  // Asked for once: a pool pins its caller, who from then on has one CPU.
  const Topology topology = usable_topology();
  BenchArena arena(options.ring_bytes());
  ProgressDisplay progress("operations");
  std::vector<KernelsRun> runs;
  for (const int n_threads : options.threads.empty() ? std::vector{0} : options.threads) {
    for (size_t i = 0; i < isas.size(); ++i) {
      PENSTOCK_ASSIGN(runs.emplace_back(),
                      measure_all(benches[i], isas[i],
                                  {.n_threads = n_threads, .pin_caller = true, .topology = topology},
                                  arena, options.effort(), progress.function()));
    }
  }
  progress.finish();
  const int columns = is_terminal(stdout) ? terminal_columns(stdout) : kTableColumns;
  fmt::print("{}", options.json ? kernels_json(runs, options.quick).dump(2) + "\n"
                                : kernels_table(runs, columns));
  return {};
}

}  // namespace

CLI::App* add_bench_kernels_command(CLI::App& bench, Action& action) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command = bench.add_subcommand(
      "kernels", "Measures every operation of the CPU beside what this machine can do.");
  command
      ->add_option("--filter", options->filter,
                   "only benchmarks whose name (--list) has a match of this regular expression")
      ->type_name("REGEX");
  command
      ->add_option("--threads", options->threads,
                   "CPU threads, or a list, 1,2, one after the other; all that the process may "
                   "use unless given")
      ->type_name("N")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096).description(""));
  command
      ->add_option("--isa", options->isas,
                   "scalar, avx2, avx512, amx, a list of them, or all; the best that the machine "
                   "has unless given")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--list", options->list, "names only: operation/format/memory/isa/tokens");
  command->add_flag("--quick", options->quick,
                    "a check that every operation runs and answers rightly: little memory, short "
                    "samples, rates that mean little");
  command->add_flag("--json", options->json, "JSON with the machine, for bench/results");
  command->footer(
      examples({{"penstock bench kernels", "every operation, with all threads"},
                {"penstock bench kernels --filter 'matmul.*/(q4_0|nvfp4)/huge' --threads 1,2",
                 "what decode reads from RAM in two formats, by one thread and by two"},
                {"penstock bench kernels --filter attention --isa all --json",
                 "attention on every instruction set, for a script"}}));
  command->group("Commands");
  for (CLI::Option* option : bench.get_options()) {
    if (option != bench.get_help_ptr()) command->excludes(option);
  }
  command->callback([options, &action] { action = [options] { return run_kernels(*options); }; });
  return command;
}

}  // namespace penstock
