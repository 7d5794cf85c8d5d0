// The banks that are in RAM: all experts of a layer in one run of memory, in the layout that
// experts have wherever they are, page-locked or locked where that was wished for and granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cpu/pool.h"
#include "memory/expert_layout.h"
#include "memory/pin_store.h"
#include "memory/residency.h"
#include "memory/weights.h"
#include "os/locked_memory.h"
#include "os/memory.h"

namespace penstock {

struct BankOptions {
  // By layer: kPinned, kLocked or kPageable is read into RAM, other layers are somebody else's.
  std::span<const Residency> residencies = {};
  PinStore* pins = nullptr;  // outlives the banks; there where a bank is to be page-locked
  Pool* pool = nullptr;      // as of WeightOptions, like the rest
  bool interleave = false;
  std::span<const int> nodes = {};
  ProgressFn progress = {};
};

// Immutable once loaded, so thread-safe. Views live as long as the store. Peak memory is the
// experts, each with what lies around it in the blocks of the disk, and 16 rows of a matrix for
// each worker that interleaves. A refusal to page-lock or to lock never ends a load: what was not
// granted is in ordinary RAM, and note() or the pin store's report says so.
class BankStore {
 public:
  // Experts of a pack are compared with their checksums; one that differs is an error that names
  // it.
  static Result<std::unique_ptr<BankStore>> load(const Checkpoint& checkpoint,
                                                 const BankOptions& options);
  BankStore(const BankStore&) = delete;
  BankStore& operator=(const BankStore&) = delete;

  bool has(int layer) const { return n_experts(layer) > 0; }
  ExpertMatrices matrices(ExpertId id) const;  // of a layer that it has
  // A run of a bank's bytes, cut where a grant of the pin store begins or ends: no copy to the GPU
  // may reach over the edge of one.
  std::vector<std::span<const std::byte>> copy_pieces(std::span<const std::byte> run) const;

  int n_banks() const;
  uint64_t bytes() const { return layout_.weight_bytes(); }  // of weights
  size_t pinned_bytes() const;
  size_t locked_bytes() const;
  const WeightLoading& loading() const { return loading_; }
  bool is_interleaved() const { return interleaved_; }  // some of them
  // Where the weights are, in as few runs as they form: for measurements.
  std::vector<std::span<const std::byte>> runs() const;
  // What was not done as asked, for the caller's log; or empty.
  const std::string& note() const { return note_; }

 private:
  struct LockedBank {
    AnonymousMemory memory;
    LockedRange lock;  // gone first
  };
  struct Bank {
    std::span<std::byte> bytes = {};  // of the memory, whoever keeps it
    std::vector<size_t> at = {};      // where each expert begins
    std::variant<AnonymousMemory, LockedBank, PinnedMemory> memory = {};
  };
  class Finisher;

  explicit BankStore(ExpertLayout layout)
      : layout_(std::move(layout)), banks_(static_cast<size_t>(layout_.n_layers())) {}
  int n_experts(int layer) const { return layout_.n_experts(layer); }
  Result<void> reserve(std::span<const int> nodes);
  Result<void> read(const Checkpoint& checkpoint, const BankOptions& options);
  Result<void> verify(const BankOptions& options);
  void interleave_all(const BankOptions& options);
  std::vector<ExpertId> experts() const;
  std::span<std::byte> bytes_of(ExpertId id) const;
  void add_note(std::string_view note);

  ExpertLayout layout_;
  std::vector<Bank> banks_;  // by layer; of others empty
  WeightLoading loading_;
  bool interleaved_ = false;
  std::string note_;
};

}  // namespace penstock
