#include "cli/model_options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <optional>

#include "base/units.h"
#include "checkpoint/pack.h"
#include "model/gpu/gpu_target.h"
#include "os/environment.h"

namespace penstock {
namespace {

// What became of the weights: "mapped", or "read in 3.8 s (4.1 GiB from disk) and interleaved".
std::string weights_text(const LoadReport& report) {
  if (!report.gpu.empty()) return "loaded in " + format_seconds(report.loading.seconds);
  if (report.mode == LoadMode::kMap) return "mapped";
  const WeightLoading& loading = report.loading;
  std::string text = "read in " + format_seconds(loading.seconds);
  if (const uint64_t bytes = loading.counts.disk_bytes; bytes > 0) {
    text += fmt::format(" ({} from disk)", format_bytes(bytes));
  }
  if (loading.is_verified) text += ", verified";
  if (report.interleaved) text += " and interleaved";
  if (report.locked_bytes > 0)
    text += fmt::format(", {} locked", format_bytes(report.locked_bytes));
  return text;
}

// For an option's value: parses it, hands it on, and has CLI11 say what is wrong with it.
template <class T>
std::function<void(const std::string&)> parsed_by(Result<T> (*parse)(std::string_view),
                                                  std::function<void(T)> take) {
  return [parse, take = std::move(take)](const std::string& value) {
    Result<T> parsed = parse(value);
    if (!parsed) throw CLI::ValidationError(parsed.error().message);
    take(*std::move(parsed));
  };
}

void add_ram_reserve_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option_function<std::string>(
          "--ram-reserve",
          parsed_by<uint64_t>(parse_bytes,
                              [&options](uint64_t bytes) { options.ram_reserve_bytes = bytes; }),
          "free RAM left to the rest of the system; a sixteenth of it, at most 4 GiB, unless given")
      ->type_name("SIZE")
      ->group("Model");
}

void add_gpu_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option(
          "--gpu", options.gpu,
          "auto: the first GPU, where the model's dense part fits its VRAM and its experts VRAM or "
          "RAM, else the CPU; none: the CPU; or which GPU, by its number or the beginning of its "
          "UUID")
      ->type_name("GPU")
      ->capture_default_str()
      ->group("Model");
  command
      .add_option_function<std::string>(
          "--vram-budget",
          parsed_by<uint64_t>(parse_bytes,
                              [&options](uint64_t bytes) { options.vram_budget_bytes = bytes; }),
          "VRAM that the model may use; all that is free unless given. A bare number is in GiB")
      ->type_name("SIZE")
      ->group("Model");
}

void add_expert_slots_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option_function<std::string>(
          "--expert-slots",
          parsed_by<ExpertSlots>(parse_expert_slots,
                                 [&options](ExpertSlots slots) { options.expert_slots = slots; }),
          "experts that have a place in RAM while all stay on disk: a number, a share as 25%, or "
          "all; as many as fit free RAM unless given; implies --load disk. With --gpu N in VRAM, "
          "while all are in RAM")
      ->type_name("N|P%|all")
      ->group("Model");
}

// Options that only the CPU has a use for; the first that was given, or empty.
std::string_view cpu_only_option(const ModelOptions& options) {
  if (options.mode != LoadMode::kAuto) return "--load";
  if (options.ram_reserve_bytes) return "--ram-reserve";
  if (!options.kv_spill.empty()) return "--kv-spill";
  return {};
}

// On the GPU that the options name, or where they leave it open on the first that can have the
// model, else on the CPU; a note says why.
Result<LoadedModel> load_where(const Checkpoint& checkpoint, const ModelOptions& options,
                               LoadOptions load) {
  const bool is_open = options.gpu == "auto";
  const std::string_view cpu_only = cpu_only_option(options);
  const bool is_exact = options.precision == Precision::kExact;
  if (options.gpu == "none" && options.vram_budget_bytes) {
    return fail(ErrorKind::kInvalidArgument, "--gpu none and --vram-budget contradict each other");
  }
  const bool has_ram_slots = options.expert_slots.is_given();
  if (options.gpu == "none" || (is_open && (is_exact || has_ram_slots))) {
    return load_model(checkpoint, load);
  }
  if (!cpu_only.empty()) {
    if (is_open) return load_model(checkpoint, load);
    return fail(ErrorKind::kInvalidArgument,
                "--gpu {} and {} contradict each other: that is for the CPU", options.gpu,
                cpu_only);
  }
  Result<GpuTarget> gpu = open_gpu(is_open ? "" : options.gpu, Log::to_stderr());
  if (!gpu && !is_open) return std::unexpected(gpu.error().in("--gpu " + options.gpu));
  std::string note;
  if (gpu) {
    gpu->vram_budget_bytes = options.vram_budget_bytes;
    gpu->pins.is_enabled = environment_variable("PENSTOCK_NO_PINNED") != "1";
    load.gpu = *std::move(gpu);
    Result<LoadedModel> loaded = load_model(checkpoint, load);
    const bool is_unfit = !loaded && (loaded.error().kind == ErrorKind::kExhausted ||
                                      loaded.error().kind == ErrorKind::kUnsupported);
    if (!is_open || !is_unfit) return loaded;
    note = fmt::format("not on {}: {}", load.gpu->name, loaded.error().message);
    load.gpu.reset();
  } else if (gpu.error().kind != ErrorKind::kNotFound) {
    note = "gpu: none, " + gpu.error().text();
  }
  PENSTOCK_ASSIGN(LoadedModel loaded, load_model(checkpoint, load));
  if (!note.empty()) loaded.report.notes.push_back(note);
  return loaded;
}

// The number, and of how many CPUs where some are left out.
std::string threads_text(const LoadReport& report) {
  std::string threads =
      fmt::format("{} {}", report.n_threads, report.n_threads == 1 ? "thread" : "threads");
  if (report.n_threads == report.n_cpus) return threads;
  return fmt::format("{} on {} of {} CPUs", threads, report.n_threads, report.n_cpus);
}

// Which processor computes, and how.
std::string processor_text(const LoadReport& report) {
  if (!report.gpu.empty()) return report.gpu;
  return fmt::format("{} on {}, {}", penstock::to_string(report.precision),
                     penstock::to_string(report.isa), threads_text(report));
}

}  // namespace

void add_model_argument(CLI::App& command, ModelOptions& options) {
  command.add_option("MODEL", options.path, "a Hugging Face folder, a GGUF file or a pack")
      ->required();
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  static const std::map<std::string, LoadMode> kModes = {{"auto", LoadMode::kAuto},
                                                         {"read", LoadMode::kRead},
                                                         {"map", LoadMode::kMap},
                                                         {"disk", LoadMode::kDisk}};
  add_model_argument(command, options);
  command
      .add_option("--threads", options.n_threads,
                  "CPU threads; unless given one for each core, as far as the cgroup's quota pays")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->group("Model");
  command
      .add_option("--load", options.mode,
                  "read: weights go into huge pages; map: they stay in the page cache; disk: "
                  "routed experts stay on disk and are read when they are needed; auto: as "
                  "`penstock plan` has it, and map where nothing else fits [auto]")
      ->type_name("MODE")
      ->transform(CLI::CheckedTransformer(kModes).description(""))
      ->group("Model");
  add_expert_slots_option(command, options);
  add_ram_reserve_option(command, options);
  command
      .add_option_function<std::string>(
          "--repack", [&options](const std::string& value) { options.repack = value == "auto"; },
          "auto: weights that are read for the class fast are interleaved, 16 rows at a time, "
          "which "
          "decode reads faster; off: they stay as stored [auto]")
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "off"}).description(""))
      ->group("Model");
  command
      .add_flag(
          "--verify", options.verify,
          "compare all checksums of a pack before it is used, also of what stays on disk or is "
          "mapped")
      ->group("Model");
  add_gpu_options(command, options);
  add_precision_option(
      command, "--cpu-precision",
      fmt::format(
          "the arithmetic class: exact (float32; the same bits for any batch, chunk, thread "
          "count and instruction set) or fast (integer and bf16 products where the "
          "processor has AVX2 and AMX; the same bits for any batch, chunk and "
          "thread count) [{}]",
          penstock::to_string(options.precision)),
      [&options](Precision precision) { options.precision = precision; })
      ->group("Model");
}

CLI::Option* add_precision_option(CLI::App& command, const std::string& name,
                                  const std::string& description,
                                  std::function<void(Precision)> take) {
  return command
      .add_option_function<std::string>(
          name,
          [take = std::move(take)](const std::string& value) {
            take(value == penstock::to_string(Precision::kFast) ? Precision::kFast
                                                                : Precision::kExact);
          },
          description)
      ->type_name("CLASS")
      ->check(CLI::IsMember({std::string(penstock::to_string(Precision::kExact)),
                             std::string(penstock::to_string(Precision::kFast))})
                  .description(""));
}

void add_kv_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--kv-tokens", options.kv_tokens,
                  "tokens that the KV cache holds, all requests together; unless given the model's "
                  "context, as far as the plan has RAM for it")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->group("Model");
}

void add_kv_spill_options(CLI::App& command, ModelOptions& options) {
  CLI::Option* const folder =
      command
          .add_option("--kv-spill", options.kv_spill,
                      "a folder for what was computed for prompts and no request uses: it comes "
                      "back from there when RAM had no room for it, and after a restart")
          ->type_name("DIR")
          ->group("Model");
  command
      .add_option_function<std::string>(
          "--kv-spill-gib",
          parsed_by<uint64_t>(parse_bytes,
                              [&options](uint64_t bytes) {
                                if (bytes == 0) {
                                  throw CLI::ValidationError("--kv-spill-gib: nothing fits into 0");
                                }
                                options.kv_spill_bytes = bytes;
                              }),
          fmt::format("how much disk that takes at most: 100, 1.5TiB, a bare number in GiB [{}]",
                      options.kv_spill_bytes / kGiB))
      ->type_name("SIZE")
      ->needs(folder)
      ->group("Model");
}

void add_answer_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--tool-parser", options.answers.tools,
                  "how the model writes tool calls: hermes, qwen3_coder, llama3_json, mistral, "
                  "none, or auto for what its chat template and vocabulary show")
      ->type_name("NAME")
      ->capture_default_str()
      ->group("Model");
  command
      .add_option("--reasoning-parser", options.answers.reasoning,
                  "how it writes its thoughts: think for <think>, mistral for [THINK], none, auto")
      ->type_name("NAME")
      ->capture_default_str()
      ->group("Model");
}

Result<LoadedModel> load(const Checkpoint& checkpoint, const ModelOptions& options,
                         const ProgressFn& progress) {
  if (options.verify) {
    if (checkpoint.kind != SourceKind::kPack) {
      return fail(ErrorKind::kInvalidArgument, "--verify: {} is no pack, only packs have checksums",
                  checkpoint.path.string());
    }
  }
  LoadOptions load = {.mode = options.mode,
                      .expert_slots = options.expert_slots,
                      .ram_reserve_bytes = options.ram_reserve_bytes,
                      .verify = options.verify,
                      .interleave = options.repack,
                      .n_threads = options.n_threads,
                      .precision = options.precision,
                      .kv_tokens = options.kv_tokens,
                      .progress = progress};
  return load_where(checkpoint, options, std::move(load));
}

std::vector<std::string> describe(const Checkpoint& checkpoint, const LoadReport& report) {
  const ModelSpec& spec = checkpoint.spec;
  const std::string experts =
      spec.moe.n_experts > 0
          ? fmt::format(", {} experts of which {} work", spec.moe.n_experts, spec.moe.top_k)
          : "";
  const std::string on_disk =
      report.n_expert_slots == 0
          ? ""
          : fmt::format(
                "; experts {}, {} of {} in {} ({})", report.gpu.empty() ? "on disk" : "in RAM",
                format_count(static_cast<uint64_t>(report.n_expert_slots)),
                format_count(static_cast<uint64_t>(report.n_experts)),
                report.gpu.empty() ? "RAM" : "VRAM", format_bytes(report.expert_slot_bytes));
  std::vector<std::string> lines = {fmt::format(
      "{}: {}, {} layers{}; {} of weights {}{}; {}; KV cache of {} tokens ({})", checkpoint.name,
      penstock::to_string(spec.family), spec.n_layers(), experts, format_bytes(report.weight_bytes),
      weights_text(report), on_disk, processor_text(report),
      format_count(static_cast<uint64_t>(report.kv_tokens)), format_bytes(report.kv_bytes))};
  if (report.prediction) {
    const PredictedRate& decode = report.prediction->decode;
    if (decode.tok_s) {
      lines.push_back(fmt::format("planned: a single stream decodes {:.1f} tok/s, bound by the {}",
                                  *decode.tok_s, penstock::to_string(decode.bound)));
    }
  }
  lines.insert(lines.end(), checkpoint.notes.begin(), checkpoint.notes.end());
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

}  // namespace penstock
