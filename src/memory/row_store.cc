#include "memory/row_store.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "memory/direct_rows.h"
#include "memory/weight_reader.h"
#include "os/file.h"

namespace penstock {
namespace {

Result<void> check_table(std::span<const std::filesystem::path> files, const RowTable& table) {
  if (table.row_bytes == 0 || table.shards.empty()) {
    return fail(ErrorKind::kInvalidData, "a row table has {} shards of rows of {} bytes",
                table.shards.size(), table.row_bytes);
  }
  for (size_t i = 0; i < table.shards.size(); ++i) {
    const auto& [file, offset, bytes] = table.shards[i];
    if (file >= files.size()) {
      return fail(ErrorKind::kInvalidData, "shard {} of a row table lies in file {} of {}", i, file,
                  files.size());
    }
    const bool is_last = i + 1 == table.shards.size();
    const uint64_t of_others = table.shards.front().bytes;
    if (bytes == 0 || bytes % table.row_bytes != 0 || bytes > of_others ||
        (!is_last && bytes != of_others)) {
      return fail(ErrorKind::kInvalidData,
                  "{}: shard {} of a row table has {} bytes, expected {}, in rows of {}",
                  files[file].string(), i, bytes, of_others, table.row_bytes);
    }
    PENSTOCK_ASSIGN(const File opened, File::open(files[file]));
    if (offset > opened.size() || bytes > opened.size() - offset) {
      return fail(ErrorKind::kInvalidData,
                  "{} has {} bytes, but shard {} of a row table is {} from {} on",
                  files[file].string(), opened.size(), i, bytes, offset);
    }
  }
  return {};
}

// A table whose shards have addresses.
class AddressedRows : public RowStore {
 protected:
  AddressedRows(RowTable table, std::vector<const std::byte*> shards)
      : RowStore(std::move(table), {}), shards_(std::move(shards)) {}

 private:
  class Copies : public RowFetch::Work {
   public:
    Copies(const AddressedRows& store, std::span<const int64_t> rows, std::span<std::byte> out)
        : store_(store), rows_(rows), out_(out) {}

    Result<void> finish() override {
      std::byte* to = out_.data();
      for (const int64_t row : rows_) {
        const Place place = store_.place_of(row);
        std::memcpy(to, store_.shards_[place.shard] + place.offset, store_.row_bytes());
        to += store_.row_bytes();
      }
      return {};
    }

   private:
    const AddressedRows& store_;
    std::span<const int64_t> rows_;
    std::span<std::byte> out_;
  };

  RowFetch fetch(std::span<const int64_t> rows, std::span<std::byte> out) override {
    for (const int64_t row : rows) will_touch(place_of(row));
    return RowFetch(std::make_unique<Copies>(*this, rows, out));
  }
  virtual void will_touch(const Place& /*place*/) const {}

  std::vector<const std::byte*> shards_;
};

class MappedRows : public AddressedRows {
 public:
  static Result<std::unique_ptr<RowStore>> make(std::span<const std::filesystem::path> files,
                                                RowTable table) {
    std::map<uint32_t, Mapping> mappings;
    std::vector<const std::byte*> shards;
    for (const Extent& shard : table.shards) {
      auto found = mappings.find(shard.file);
      if (found == mappings.end()) {
        PENSTOCK_ASSIGN(Mapping mapping, Mapping::open(files[shard.file]));
        mapping.expect_random_reads();
        found = mappings.emplace(shard.file, std::move(mapping)).first;
      }
      shards.push_back(found->second.bytes().data() + shard.offset);
    }
    return std::unique_ptr<RowStore>(
        new MappedRows(std::move(table), std::move(shards), std::move(mappings)));
  }

 private:
  MappedRows(RowTable table, std::vector<const std::byte*> shards,
             std::map<uint32_t, Mapping> mappings)
      : AddressedRows(std::move(table), std::move(shards)), mappings_(std::move(mappings)) {}

  void will_touch(const Place& place) const override {
    const Extent& shard = table().shards[place.shard];
    mappings_.at(shard.file).begin_to_read(shard.offset + place.offset, row_bytes());
  }

  std::map<uint32_t, Mapping> mappings_;  // by file
};

class PinnedRows : public AddressedRows {
 public:
  static Result<std::unique_ptr<RowStore>> make(std::span<const std::filesystem::path> files,
                                                RowTable table, const RowStoreOptions& options) {
    std::vector<AnonymousMemory> memory;
    std::vector<WantedRun> runs;
    std::vector<const std::byte*> shards;
    for (const auto& [file, offset, bytes] : table.shards) {
      const DirectRange range = direct_range_around(offset, bytes);
      PENSTOCK_ASSIGN(auto of_shard, AnonymousMemory::reserve(range.bytes, OsPages::kHuge));
      runs.push_back({.file = file, .run = {offset, offset + bytes}, .memory = of_shard.bytes()});
      shards.push_back(of_shard.bytes().data() + range.skip);
      memory.push_back(std::move(of_shard));
    }
    PENSTOCK_ASSIGN(const auto queue, ReadQueue::make());
    PENSTOCK_TRY(read_runs(files, runs, *queue, /*pool=*/nullptr, {.progress = options.progress}));
    std::vector<PinnedMemory> pinned;
    if (options.pins != nullptr) {
      for (AnonymousMemory& of_shard : memory) {
        pinned.push_back(options.pins->pin(std::move(of_shard)));
      }
      memory.clear();
    }
    return std::unique_ptr<RowStore>(
        new PinnedRows(std::move(table), std::move(shards), std::move(memory), std::move(pinned)));
  }

 private:
  PinnedRows(RowTable table, std::vector<const std::byte*> shards,
             std::vector<AnonymousMemory> memory, std::vector<PinnedMemory> pinned)
      : AddressedRows(std::move(table), std::move(shards)),
        memory_(std::move(memory)),
        pinned_(std::move(pinned)) {}

  // By shard, in one of them.
  std::vector<AnonymousMemory> memory_;
  std::vector<PinnedMemory> pinned_;
};

}  // namespace

RowStore::RowStore(RowTable table, std::string note)
    : table_(std::move(table)),
      rows_per_shard_(table_.shards.front().bytes / table_.row_bytes),
      n_rows_(static_cast<int64_t>((table_.shards.size() - 1) * rows_per_shard_ +
                                   table_.shards.back().bytes / table_.row_bytes)),
      note_(std::move(note)) {}

Result<std::unique_ptr<RowStore>> RowStore::make(std::span<const std::filesystem::path> files,
                                                 RowTable table, const RowStoreOptions& options) {
  PENSTOCK_CHECK(options.backend != RowBackend::kNone, "a row store is somewhere");
  PENSTOCK_TRY(check_table(files, table));
  switch (options.backend) {
    case RowBackend::kPinned:
      return PinnedRows::make(files, std::move(table), options);
    case RowBackend::kMmap:
      return MappedRows::make(files, std::move(table));
    case RowBackend::kDirect:
    case RowBackend::kNone:
      break;
  }
  return make_direct_rows(files, std::move(table), options.staging_bytes,
                          ReadQueue::make(kRowReads));
}

Result<RowFetch> RowStore::begin(std::span<const int64_t> rows, std::span<std::byte> out) {
  PENSTOCK_CHECK(out.size() == rows.size() * row_bytes(), "rows need memory of their own size");
  for (const int64_t row : rows) {
    if (row < 0 || row >= n_rows_) {
      return fail(ErrorKind::kInvalidArgument, "row {} of a table of {} rows was asked for", row,
                  n_rows_);
    }
  }
  return fetch(rows, out);
}

}  // namespace penstock
