#include "memory/direct_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "base/integers.h"

namespace penstock {
namespace {

class DirectRows : public RowStore {
 public:
  DirectRows(RowTable table, std::string note, std::map<uint32_t, DirectFile> files,
             AnonymousMemory staging, std::unique_ptr<ReadQueue> queue)
      : RowStore(std::move(table), std::move(note)),
        files_(std::move(files)),
        staging_(std::move(staging)),
        queue_(std::move(queue)) {}

 private:
  class Fetch;

  RowFetch fetch(std::span<const int64_t> rows, std::span<std::byte> out) override;

  std::map<uint32_t, DirectFile> files_;
  AnonymousMemory staging_;
  std::unique_ptr<ReadQueue> queue_;
};

// Rows in the order of the disk, in waves that fit one half of the staging memory; while one wave's
// rows are copied out, the next one is being read into the other half.
class DirectRows::Fetch : public RowFetch::Work {
 public:
  Fetch(DirectRows& store, std::span<const int64_t> rows, std::span<std::byte> out)
      : store_(store), rows_(rows), out_(out), by_place_(rows.size()) {
    for (size_t i = 0; i < rows.size(); ++i) by_place_[i] = i;
    std::ranges::sort(by_place_, {}, [&](size_t i) { return rows_[i]; });
    begin_wave();
  }

  Result<void> finish() override {
    while (waves_[which_]) {
      Wave wave = *std::exchange(waves_[which_], std::nullopt);
      which_ = 1 - which_;
      begin_wave();
      PENSTOCK_TRY(wave.reads.wait());
      copy_out(wave);
    }
    return {};
  }

 private:
  // A row of the wave: which of those asked for, and where its bytes are.
  struct Staged {
    size_t which;
    const std::byte* bytes;
  };
  struct Wave {
    std::vector<Staged> rows;
    ReadBatch reads;
  };

  // Reads for rows from next_ on, as many as fit the half of the staging that which_ says.
  void begin_wave() {
    if (next_ == by_place_.size()) return;
    const size_t half = store_.staging_.bytes().size() / 2;
    const auto staging = store_.staging_.bytes().subspan(which_ * half, half);
    std::vector<Staged> staged;
    std::vector<ReadRequest> requests;
    size_t used = 0;
    for (; next_ < by_place_.size(); ++next_) {
      const size_t which = by_place_[next_];
      const Place place = store_.place_of(rows_[which]);
      const Extent& shard = store_.table().shards[place.shard];
      const DirectRange range =
          direct_range_around(shard.offset + place.offset, store_.row_bytes());
      const DirectFile& file = store_.files_.at(shard.file);
      // Blocks that the last request reads already, or that follow on it, are not read twice.
      const uint64_t end =
          requests.empty() ? 0 : requests.back().offset + requests.back().out.size();
      const bool continues = !requests.empty() && requests.back().file == &file &&
                             range.offset >= requests.back().offset && range.offset <= end;
      const size_t more = continues ? std::max(range.offset + range.bytes, end) - end : range.bytes;
      if (used + more > staging.size()) break;
      if (!continues) {
        requests.push_back(
            {.file = &file, .offset = range.offset, .out = staging.subspan(used, 0)});
      }
      ReadRequest& request = requests.back();
      request.out = {request.out.data(), request.out.size() + more};
      used += more;
      staged.push_back({which, request.out.data() + (range.offset - request.offset) + range.skip});
    }
    waves_[which_].emplace(Wave{std::move(staged), store_.queue_->submit(requests)});
  }

  void copy_out(const Wave& wave) const {
    const size_t n = store_.row_bytes();
    for (const auto& [which, bytes] : wave.rows) std::memcpy(out_.data() + which * n, bytes, n);
  }

  DirectRows& store_;
  std::span<const int64_t> rows_;
  std::span<std::byte> out_;
  std::vector<size_t> by_place_;  // positions in rows_
  size_t next_ = 0;               // of by_place_, the first that no wave has
  size_t which_ = 0;              // half of the staging: of the wave to wait for, or to begin
  std::array<std::optional<Wave>, 2> waves_;
};

RowFetch DirectRows::fetch(std::span<const int64_t> rows, std::span<std::byte> out) {
  return RowFetch(std::make_unique<Fetch>(*this, rows, out));
}

}  // namespace

Result<std::unique_ptr<RowStore>> make_direct_rows(std::span<const std::filesystem::path> files,
                                                   RowTable table, size_t staging_bytes,
                                                   Result<std::unique_ptr<ReadQueue>> queue) {
  const size_t half = staging_bytes / 2 / kDirectAlignment * kDirectAlignment;
  // A row may begin at a block's last byte.
  const size_t least = round_up(table.row_bytes, kDirectAlignment) + kDirectAlignment;
  if (half < least) {
    return fail(ErrorKind::kInvalidArgument,
                "{} of staging memory cannot read rows of {} bytes, which need {}",
                format_bytes(staging_bytes), table.row_bytes, format_bytes(2 * least));
  }
  PENSTOCK_ASSIGN(auto reads, std::move(queue));
  std::string note = reads->note();
  std::map<uint32_t, DirectFile> opened;
  for (const Extent& shard : table.shards) {
    if (opened.contains(shard.file)) continue;
    PENSTOCK_ASSIGN(DirectFile file, DirectFile::open(files[shard.file]));
    if (note.empty()) note = file.note();
    opened.emplace(shard.file, std::move(file));
  }
  PENSTOCK_ASSIGN(auto staging, AnonymousMemory::reserve(2 * half, OsPages::kHuge));
  return std::make_unique<DirectRows>(std::move(table), std::move(note), std::move(opened),
                                      std::move(staging), std::move(reads));
}

}  // namespace penstock
