// What a disk gives direct reads, by how many are in flight and how large they are: through the
// fastest backend there is, from a file in $PENSTOCK_BENCH_FOLDER or else the system's folder for
// temporary files.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "os/direct_io.h"
#include "os/environment.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr size_t kFileBytes = kGiB;
constexpr size_t kBatchBytes = 64 * kMiB;

// Each word of the file is its own offset.
class BenchFile {
 public:
  BenchFile() : path_(folder() / ("penstock_direct_io_bench_" + std::to_string(::getpid()))) {
    std::ofstream out(path_, std::ios::binary);
    std::vector<uint64_t> words(kMiB / sizeof(uint64_t));
    for (uint64_t offset = 0; offset < kFileBytes;) {
      for (uint64_t& word : words) word = std::exchange(offset, offset + sizeof word);
      out.write(reinterpret_cast<const char*>(words.data()), kMiB);
    }
    out.close();
    PENSTOCK_CHECK(out.good(), "cannot write the file to be read");
    ::sync();  // or the first reads would wait for the writes
    file_ = std::make_unique<DirectFile>(DirectFile::open(path_).value());
  }
  ~BenchFile() { std::filesystem::remove(path_); }

  const DirectFile& file() const { return *file_; }

 private:
  static std::filesystem::path folder() {
    const auto chosen = environment_variable("PENSTOCK_BENCH_FOLDER");
    return chosen.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(chosen);
  }

  std::filesystem::path path_;
  std::unique_ptr<DirectFile> file_;
};

void check_read(const ReadRequest& request) {
  for (const size_t at : {size_t{0}, request.out.size() - sizeof(uint64_t)}) {
    uint64_t word = 0;
    std::memcpy(&word, request.out.data() + at, sizeof word);
    PENSTOCK_CHECK(word == request.offset + at, "read something else");
  }
}

// Reads batches of kBatchBytes, each request at the offset that `next_offset` names.
template <class NextOffset>
void read_batches(benchmark::State& state, int depth, size_t request_bytes,
                  NextOffset next_offset) {
  static const BenchFile bench_file;
  const auto queue = ReadQueue::make({.depth = depth, .prefetch_depth = 1}).value();
  const auto memory = AnonymousMemory::reserve(kBatchBytes, OsPages::kHuge).value();
  std::vector<ReadRequest> requests(kBatchBytes / request_bytes);
  std::vector<double> rates;
  for (auto _ : state) {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i] = {.file = &bench_file.file(),
                     .offset = next_offset(),
                     .out = memory.bytes().subspan(i * request_bytes, request_bytes)};
    }
    const auto began = std::chrono::steady_clock::now();
    PENSTOCK_CHECK(queue->submit(requests).wait(), "a read failed");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    state.SetIterationTime(took.count());
    rates.push_back(static_cast<double>(kBatchBytes) * 1e-9 / took.count());
    std::ranges::for_each(requests, check_read);
  }
  std::ranges::sort(rates);
  state.counters["min_GB/s"] = rates.front();
  state.counters["p50_GB/s"] = rates[rates.size() / 2];
  state.counters["max_GB/s"] = rates.back();
  state.SetLabel(std::string(queue->backend()) +
                 (bench_file.file().is_direct() ? "" : ", through the page cache"));
}

void sequential(benchmark::State& state) {
  uint64_t at = 0;
  read_batches(state, static_cast<int>(state.range(0)), kMiB,
               [&] { return std::exchange(at, (at + kMiB) % kFileBytes); });
}
BENCHMARK(sequential)
    ->ArgName("depth")
    ->Arg(1)
    ->Arg(8)
    ->Arg(32)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void random_offsets(benchmark::State& state) {
  const auto request_bytes = static_cast<size_t>(state.range(0)) * kKiB;
  std::mt19937_64 random(1);
  std::uniform_int_distribution<uint64_t> block(0, (kFileBytes - request_bytes) / kDirectAlignment);
  read_batches(state, static_cast<int>(state.range(1)), request_bytes,
               [&] { return block(random) * kDirectAlignment; });
}
BENCHMARK(random_offsets)
    ->ArgNames({"KiB", "depth"})
    ->ArgsProduct({{64, 256, 1024, 2048}, {8, 32}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
