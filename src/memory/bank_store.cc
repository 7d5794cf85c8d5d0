#include "memory/bank_store.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "memory/weight_jobs.h"
#include "memory/weight_reader.h"
#include "os/numa.h"
#include "os/thread_name.h"
#include "tensor/interleave.h"

namespace penstock {
namespace {

bool is_in_ram(Residency residency) {
  return residency == Residency::kPinned || residency == Residency::kLocked ||
         residency == Residency::kPageable;
}

LayerSet layers_in_ram(std::span<const Residency> residencies) {
  LayerSet layers(static_cast<int>(residencies.size()));
  for (int layer = 0; layer < layers.n_layers(); ++layer) {
    if (is_in_ram(residencies[static_cast<size_t>(layer)])) layers.add(layer);
  }
  return layers;
}

ExpertId expert_id(int layer, int index) {
  return {.layer = static_cast<uint16_t>(layer), .index = static_cast<uint16_t>(index)};
}

}  // namespace

// Locks banks and has them page-locked, in a thread of its own, while later ones are read.
class BankStore::Finisher {
 public:
  Finisher(std::vector<Bank>& banks, const BankOptions& options)
      : banks_(banks), options_(options), thread_([this](const std::stop_token& stop) {
          name_this_thread("penstock-pin");
          run(stop);
        }) {}

  // All bytes of the layer's bank are there.
  void finish(size_t layer) {
    const std::lock_guard lock(mutex_);
    finished_.push_back(layer);
    changed_.notify_one();
  }

  // After the last: what the system refused, or nothing.
  std::string wait() {
    thread_.request_stop();
    thread_.join();
    if (refusal_.empty()) return {};
    return fmt::format("{} of {} banks stay pageable: {}", n_refused_, n_wished_, refusal_);
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, stop, [&] { return !finished_.empty(); });
      if (finished_.empty()) return;  // to stop, and all done
      const size_t layer = finished_.front();
      finished_.pop_front();
      lock.unlock();
      keep(banks_[layer], options_.residencies[layer]);
      lock.lock();
    }
  }

  void keep(Bank& bank, Residency residency) {
    if (residency == Residency::kPageable) return;
    auto memory = std::get<AnonymousMemory>(std::move(bank.memory));
    if (residency == Residency::kPinned) {
      bank.memory = options_.pins->pin(std::move(memory));
      return;
    }
    ++n_wished_;
    auto locked = LockedRange::lock(memory.bytes());
    if (locked) {
      bank.memory = LockedBank{std::move(memory), *std::move(locked)};
      return;
    }
    ++n_refused_;
    refusal_ = locked.error().message;
    bank.memory = std::move(memory);
  }

  std::vector<Bank>& banks_;
  const BankOptions& options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<size_t> finished_;  // layers; with mutex_
  // The thread's alone until it has been joined.
  int n_wished_ = 0;
  int n_refused_ = 0;
  std::string refusal_;
  std::jthread thread_;
};

Result<std::unique_ptr<BankStore>> BankStore::load(const Checkpoint& checkpoint,
                                                   const BankOptions& options) {
  PENSTOCK_CHECK(std::cmp_equal(options.residencies.size(), checkpoint.spec.n_layers()),
                 "one residency for each layer");
  PENSTOCK_ASSIGN(ExpertLayout layout,
                  ExpertLayout::make(checkpoint, layers_in_ram(options.residencies)));
  std::unique_ptr<BankStore> store(new BankStore(std::move(layout)));
  PENSTOCK_TRY(store->reserve(options.nodes));
  PENSTOCK_TRY(store->read(checkpoint, options));
  PENSTOCK_TRY(store->verify(options));
  if (options.interleave) store->interleave_all(options);
  return store;
}

Result<void> BankStore::reserve(std::span<const int> nodes) {
  for (int layer = 0; layer < layout_.n_layers(); ++layer) {
    Bank& bank = banks_[static_cast<size_t>(layer)];
    size_t bytes = 0;
    for (int index = 0; index < n_experts(layer); ++index) {
      bank.at.push_back(bytes);
      bytes += layout_.expert_bytes(expert_id(layer, index));
    }
    if (bytes == 0) continue;
    PENSTOCK_ASSIGN(auto memory, AnonymousMemory::reserve(bytes, OsPages::kHuge));
    bank.bytes = memory.bytes();
    if (const auto placed = place_on_nodes(bank.bytes, nodes); !placed) {
      add_note(placed.error().message);  // slower, but right
    }
    bank.memory = std::move(memory);
  }
  return {};
}

Result<void> BankStore::read(const Checkpoint& checkpoint, const BankOptions& options) {
  std::vector<WantedRun> runs;
  std::vector<size_t> layer_of;                  // each run's
  std::vector<size_t> n_missing(banks_.size());  // runs of each layer
  for (const ExpertId id : experts()) {
    for (const ExpertLayout::Part& part : layout_.parts(id)) {
      runs.push_back({.file = part.file,
                      .run = part.wanted,
                      .memory = bytes_of(id).subspan(part.at, part.bytes)});
      layer_of.push_back(id.layer);
      ++n_missing[id.layer];
    }
  }
  PENSTOCK_ASSIGN(const auto queue, ReadQueue::make());
  if (!queue->note().empty()) add_note(queue->note());
  Finisher finisher(banks_, options);
  const auto began = std::chrono::steady_clock::now();
  const auto counts = read_runs(checkpoint.files, runs, *queue, options.pool,
                                {.progress = options.progress, .done = [&](size_t run) {
                                   const size_t layer = layer_of[run];
                                   if (--n_missing[layer] == 0) finisher.finish(layer);
                                 }});
  loading_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (const std::string refused = finisher.wait(); !refused.empty()) add_note(refused);
  if (!counts) return std::unexpected(counts.error());
  loading_.counts = *counts;
  return {};
}

Result<void> BankStore::verify(const BankOptions& options) {
  const std::vector<ExpertId> ids = experts();
  if (!std::ranges::all_of(ids, [&](ExpertId id) { return layout_.is_verifiable(id); })) return {};
  std::vector<uint64_t> sizes;
  for (const ExpertId id : ids) sizes.push_back(layout_.expert_bytes(id));
  std::vector<Result<void>> verified(ids.size());
  run_weight_jobs(options.pool, options.progress, "verifying experts", sizes,
                  [&](size_t i) { verified[i] = layout_.verify(ids[i], bytes_of(ids[i])); });
  for (const Result<void>& expert : verified) PENSTOCK_TRY(expert);
  loading_.is_verified = true;
  return {};
}

void BankStore::interleave_all(const BankOptions& options) {
  struct Job {
    MatrixView matrix;
    std::span<std::byte> expert;
  };
  std::vector<Job> jobs;
  std::vector<uint64_t> sizes;
  for (const ExpertId id : experts()) {
    const auto [gate, up, down] = layout_.matrices(id, bytes_of(id));
    for (const MatrixView& matrix : {gate, up, down}) {
      if (!has_interleaved_shape(matrix)) continue;
      jobs.push_back({matrix, bytes_of(id)});
      sizes.push_back(matrix.data.size() + matrix.scales.size());
    }
  }
  run_weight_jobs(options.pool, options.progress, "interleaving experts", sizes, [&](size_t i) {
    const auto writable = [&](std::span<const std::byte> part) {
      if (part.empty()) return std::span<std::byte>{};
      const std::span<std::byte> expert = jobs[i].expert;
      return expert.subspan(static_cast<size_t>(part.data() - expert.data()), part.size());
    };
    const MatrixView& matrix = jobs[i].matrix;
    interleave(matrix, writable(matrix.data), writable(matrix.scales));
  });
  interleaved_ = !jobs.empty();
}

ExpertMatrices BankStore::matrices(ExpertId id) const {
  ExpertMatrices matrices = layout_.matrices(id, bytes_of(id));
  for (MatrixView* matrix : {&matrices.gate, &matrices.up, &matrices.down}) {
    if (interleaved_ && has_interleaved_shape(*matrix)) matrix->layout = Layout::kInterleaved;
  }
  return matrices;
}

std::vector<std::span<const std::byte>> BankStore::copy_pieces(
    std::span<const std::byte> run) const {
  if (run.empty()) return {};
  for (const Bank& bank : banks_) {
    const auto* const pinned = std::get_if<PinnedMemory>(&bank.memory);
    if (pinned == nullptr) continue;
    const std::span<const std::byte> bytes = pinned->bytes();
    if (run.data() < bytes.data() || run.data() >= bytes.data() + bytes.size()) continue;
    const auto begin = static_cast<size_t>(run.data() - bytes.data());
    std::vector<std::span<const std::byte>> pieces;
    for (const CopyPiece& piece : pinned->pieces(begin, begin + run.size())) {
      pieces.push_back(bytes.subspan(piece.begin, piece.end - piece.begin));
    }
    return pieces;
  }
  return {run};
}

std::vector<ExpertId> BankStore::experts() const {
  std::vector<ExpertId> ids;
  for (int layer = 0; layer < layout_.n_layers(); ++layer) {
    for (int index = 0; index < n_experts(layer); ++index) {
      ids.push_back(expert_id(layer, index));
    }
  }
  return ids;
}

std::span<std::byte> BankStore::bytes_of(ExpertId id) const {
  const Bank& bank = banks_[id.layer];
  return bank.bytes.subspan(bank.at[id.index], layout_.expert_bytes(id));
}

int BankStore::n_banks() const {
  return static_cast<int>(
      std::ranges::count_if(banks_, [](const Bank& bank) { return !bank.bytes.empty(); }));
}

size_t BankStore::pinned_bytes() const {
  size_t bytes = 0;
  for (const Bank& bank : banks_) {
    if (const auto* pinned = std::get_if<PinnedMemory>(&bank.memory)) {
      bytes += pinned->pinned_bytes();
    }
  }
  return bytes;
}

size_t BankStore::locked_bytes() const {
  size_t bytes = 0;
  for (const Bank& bank : banks_) {
    if (std::holds_alternative<LockedBank>(bank.memory)) bytes += bank.bytes.size();
  }
  return bytes;
}

std::vector<std::span<const std::byte>> BankStore::runs() const {
  std::vector<std::span<const std::byte>> all;
  for (const Bank& bank : banks_) {
    if (!bank.bytes.empty()) all.emplace_back(bank.bytes);
  }
  return all;
}

void BankStore::add_note(std::string_view note) {
  if (note_.contains(note)) return;
  if (!note_.empty()) note_ += "; ";
  note_ += note;
}

}  // namespace penstock
