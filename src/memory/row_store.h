// A table of which each token of a step needs a few rows, too large to read whole: hashed n-grams,
// per-layer embeddings. Rows are asked for before the step's first layer and joined where they are
// needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "memory/pin_store.h"
#include "memory/row_backend.h"

namespace penstock {

// Where a table lies: shards of equally many rows, each a run of a file, the last perhaps shorter.
// Rows begin anywhere.
struct RowTable {
  size_t row_bytes = 0;
  std::vector<Extent> shards = {};  // in order of rows
};

struct RowStoreOptions {
  RowBackend backend = RowBackend::kDirect;  // not kNone
  PinStore* pins = nullptr;                  // of kPinned; null: memory that nobody locks
  size_t staging_bytes = 16 * kMiB;  // of kDirect: what is being read, in two halves that alternate
  ProgressFn progress = {};          // of kPinned, which reads everything
};

// Rows on their way. Move-only; one that is dropped leaves its memory half written.
class RowFetch {
 public:
  // What a backend still has to do.
  class Work {
   public:
    virtual ~Work() = default;
    virtual Result<void> finish() = 0;
  };
  explicit RowFetch(std::unique_ptr<Work> work) : work_(std::move(work)) {}

  // Waits until every row is where it was asked for. Once.
  Result<void> join() { return work_->finish(); }

 private:
  std::unique_ptr<Work> work_;
};

// One thread at a time, and one fetch at a time: staging is the store's.
class RowStore {
 public:
  // `files` are those that the table's extents count in; they must stay. Fails on shards that are
  // not whole rows, reach past a file's end or differ in size, on files that cannot be opened, and
  // where half of staging_bytes holds no row.
  static Result<std::unique_ptr<RowStore>> make(std::span<const std::filesystem::path> files,
                                                RowTable table, const RowStoreOptions& options);
  virtual ~RowStore() = default;
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  int64_t n_rows() const { return n_rows_; }
  size_t row_bytes() const { return table_.row_bytes; }
  // What was not done as asked, for the caller's log; or empty.
  const std::string& note() const { return note_; }

  // Begins to bring rows, which may repeat, to `out`, [rows.size()][row_bytes]: both must stay
  // until the fetch is joined or gone. A row that the table does not have is an error.
  Result<RowFetch> begin(std::span<const int64_t> rows, std::span<std::byte> out);

 protected:
  struct Place {
    size_t shard = 0;
    uint64_t offset = 0;  // of the row, in the shard
  };

  RowStore(RowTable table, std::string note);
  const RowTable& table() const { return table_; }
  Place place_of(int64_t row) const {
    const auto at = static_cast<uint64_t>(row);
    return {.shard = at / rows_per_shard_, .offset = at % rows_per_shard_ * table_.row_bytes};
  }

 private:
  // Rows that are there.
  virtual RowFetch fetch(std::span<const int64_t> rows, std::span<std::byte> out) = 0;

  RowTable table_;
  uint64_t rows_per_shard_;
  int64_t n_rows_;
  std::string note_;
};

}  // namespace penstock
