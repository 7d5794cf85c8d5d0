#include "kernels/machine_limits/machine_limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "kernels/machine_limits/limit_loops.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

// What a worker reads at a time: long enough for the hardware's prefetchers, short enough that no
// worker waits for another's last.
constexpr int64_t kReadChunk = int64_t{2} << 20;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

uint64_t read_all_scalar(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at + sizeof sum <= bytes.size(); at += sizeof sum) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  return sum;
}

using ReadAll = uint64_t (*)(std::span<const std::byte>);

ReadAll reader_for(Isa isa) {
  if (isa >= Isa::kAvx512) return read_all_avx512;
  return isa == Isa::kAvx2 ? read_all_avx2 : read_all_scalar;
}

ArithmeticLoop loop_for(Isa isa, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kFloat32:
      if (isa >= Isa::kAvx512) return float32_loop_avx512();
      return isa == Isa::kAvx2 ? float32_loop_avx2() : ArithmeticLoop{};
    case Arithmetic::kInt8:
      return isa >= Isa::kAvx512 ? int8_loop_avx512() : ArithmeticLoop{};
    case Arithmetic::kBf16Tiles:
      return isa == Isa::kAmx ? bf16_tiles_loop_amx() : ArithmeticLoop{};
    case Arithmetic::kInt8Tiles:
      return isa == Isa::kAmx ? int8_tiles_loop_amx() : ArithmeticLoop{};
  }
  return {};
}

// Seconds in which every worker runs as many rounds.
double run_rounds(Pool& pool, const ArithmeticLoop& loop, int64_t n_rounds) {
  const auto began = Clock::now();
  pool.run([&](int) {
    float sink = 0;
    loop.run(n_rounds, &sink);
  });
  return seconds_since(began);
}

}  // namespace

std::string_view to_string(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kFloat32:
      return "float32";
    case Arithmetic::kInt8:
      return "int8";
    case Arithmetic::kBf16Tiles:
      return "bf16 tiles";
    case Arithmetic::kInt8Tiles:
      return "int8 tiles";
  }
  return "?";
}

double read_seconds(Pool& pool, Isa isa, std::span<const std::span<const std::byte>> parts) {
  const ReadAll read_all = reader_for(isa);
  std::atomic<uint64_t> sum = 0;  // keeps the reads; nobody asks for it
  const auto began = Clock::now();
  for (const std::span<const std::byte> part : parts) {
    pool.parallel_for(static_cast<int64_t>(part.size()), kReadChunk, [&](Range range, int) {
      sum += read_all(
          part.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size())));
    });
  }
  return seconds_since(began);
}

double read_rate(Pool& pool, Isa isa, std::span<const std::byte> bytes, int n_passes) {
  double best = 0;
  for (int pass = 0; pass <= n_passes; ++pass) {
    const double rate =
        static_cast<double>(bytes.size()) / read_seconds(pool, isa, std::array{bytes});
    if (pass > 0) best = std::max(best, rate);
  }
  return best;
}

double arithmetic_rate(Pool& pool, Isa isa, Arithmetic arithmetic, double pass_seconds,
                       int n_passes) {
  const ArithmeticLoop loop = loop_for(isa, arithmetic);
  if (loop.run == nullptr) return 0;
  int64_t n_rounds = 1000;
  while (run_rounds(pool, loop, n_rounds) < pass_seconds) n_rounds *= 2;
  double best = 0;
  for (int pass = 0; pass < n_passes; ++pass) {
    const double seconds = run_rounds(pool, loop, n_rounds);
    best = std::max(
        best, loop.operations_a_round * static_cast<double>(n_rounds) * pool.n_workers() / seconds);
  }
  return best;
}

}  // namespace penstock
