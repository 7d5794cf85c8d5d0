// Turns the wish to have a bank page-locked for the GPU into what the driver will really grant, and
// gives that back. A refused pin never ends a load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/units.h"
#include "cuda/driver.h"
#include "os/memory.h"

namespace penstock {

class PinStore;

// What is charged to a quota or a budget: whole OS pages, of which a driver can lock no parts.
inline constexpr size_t kPinPageBytes = 4 * kKiB;
// Smaller chunks are not tried.
inline constexpr size_t kSmallestPinBytes = 64 * kKiB;
// A driver that grants only crumbs is not asked on and on: a bank of 2 GiB can be had in grants of
// 2 MiB.
inline constexpr int64_t kMaxPinCallsPerBank = 1024;

// Bytes [begin, end) of a bank, registered by one call. All but a bank's last end with an OS page.
struct PinGrant {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const PinGrant&) const = default;
};

// Bytes [begin, end) of a bank, which one copy can read.
struct CopyPiece {
  size_t begin = 0;
  size_t end = 0;
  bool is_pinned = false;

  bool operator==(const CopyPiece&) const = default;
};

// Memory of which the driver registered all, a part or nothing. Move-only. Gives its grants back in
// reverse order, then the memory; memory that the driver would not unregister stays until the
// process ends.
class PinnedMemory {
 public:
  PinnedMemory(PinnedMemory&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        memory_(std::move(other.memory_)),
        grants_(std::move(other.grants_)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(memory_, other.memory_);
    std::swap(grants_, other.grants_);
    return *this;
  }
  ~PinnedMemory();

  std::span<std::byte> bytes() const { return memory_.bytes(); }
  std::span<const PinGrant> grants() const { return grants_; }  // ascending, none overlaps another
  size_t pinned_bytes() const;

  // [begin, end), cut where a grant begins or ends: no copy may reach over the edge of one.
  std::vector<CopyPiece> pieces(size_t begin, size_t end) const;

 private:
  friend class PinStore;
  PinnedMemory(PinStore& store, AnonymousMemory memory)
      : store_(&store), memory_(std::move(memory)) {}

  PinStore* store_;  // null: moved from
  AnonymousMemory memory_;
  std::vector<PinGrant> grants_;
};

struct PinOptions {
  static constexpr size_t kNoBudget = std::numeric_limits<size_t>::max();

  bool is_enabled = true;  // PENSTOCK_NO_PINNED=1 makes it false: the driver is never asked
  size_t budget_bytes = kNoBudget;
  // Grants begin at its multiples: the OS's allocation granularity, where that is above an OS page.
  size_t granularity_bytes = kPinPageBytes;
};

// All banks together. Bytes that are registered count as whole OS pages.
struct PinReport {
  size_t n_banks = 0;
  size_t wished_bytes = 0;      // of the banks there are
  size_t registered_bytes = 0;  // now, the stuck ones included
  size_t stuck_bytes = 0;       // which the driver would not unregister
  size_t n_grants = 0;
  int64_t n_calls = 0;     // to register, so far
  int64_t n_refusals = 0;  // of these
  std::string last_refusal = {};
  // What the driver grants in all: what was registered when it last refused even the smallest
  // chunk, or more where it has granted more since. Nothing: it has not refused one.
  std::optional<size_t> quota_bytes = {};

  bool operator==(const PinReport&) const = default;
};

// Thread-safe: banks are pinned one at a time. Outlives what it pinned.
class PinStore {
 public:
  // The granularity is a multiple of kPinPageBytes.
  PinStore(Driver& driver, PinOptions options, Log log);
  PinStore(const PinStore&) = delete;
  PinStore& operator=(const PinStore&) = delete;
  ~PinStore();

  // Registers as much of `memory`, from its beginning, as budget and driver allow: the whole first,
  // then ever smaller chunks. Never more than kMaxPinCallsPerBank calls, and one, of the smallest
  // chunk, while the driver's quota is spent.
  PinnedMemory pin(AnonymousMemory memory);

  PinReport report() const;
  // One line that says what came of a load: a warning where the driver refused some of it.
  void log_load() const;

 private:
  friend class PinnedMemory;
  class Ladder;

  // These are called with mutex_ held.
  void pin_chunks(PinnedMemory& bank);
  bool try_register(std::span<std::byte> chunk);
  bool try_unregister(std::span<std::byte> chunk);
  size_t affordable_end(size_t begin, size_t end) const;

  void give_back(PinnedMemory& bank);

  Driver& driver_;
  const PinOptions options_;
  const Log log_;
  mutable std::mutex mutex_;
  PinReport report_;
  size_t first_chunk_bytes_ = PinOptions::kNoBudget;  // the most that the next bank tries at once
};

// What log_load() says.
std::string describe_pins(const PinReport& report, const PinOptions& options);

}  // namespace penstock
