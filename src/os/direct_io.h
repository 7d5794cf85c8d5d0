// How expert weights are read from disk: past the page cache, many ranges at once, by io_uring or,
// where that is not to be had, by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "os/file.h"

namespace penstock {

// Offset, size and address of a direct read are multiples of this: what the disks of today ask for,
// or a multiple of it.
inline constexpr size_t kDirectAlignment = 4 * kKiB;

// What has to be read so that a run of bytes which lies anywhere in a file is among it.
struct DirectRange {
  uint64_t offset = 0;  // of the file, where the read begins
  size_t bytes = 0;     // to be read
  size_t skip = 0;      // bytes read before the first that is wanted, [0, kDirectAlignment)
};
DirectRange direct_range_around(uint64_t offset, size_t bytes);

// A regular file open for direct reads; where its file system refuses them, for reads through the
// page cache under the same rules. Move-only; closed at the end. Thread-safe.
class DirectFile {
 public:
  // As File::open.
  static Result<DirectFile> open(const std::filesystem::path& path);

  uint64_t size() const { return file_.size(); }  // bytes, when it was opened
  const std::filesystem::path& path() const { return file_.path(); }
  bool is_direct() const { return is_direct_; }
  std::string note() const;  // what was not done as asked, for the caller's log; or empty

  // The operating system's name for the open file, for those who read it in os/.
  intptr_t handle() const;

 private:
  DirectFile(File file, bool is_direct) : file_(std::move(file)), is_direct_(is_direct) {}

  File file_;
  bool is_direct_;
};

// A range of a file and where it goes. Offset, size and address are multiples of kDirectAlignment.
// The range may reach past the file's end only within its last block; what then lies in `out`
// behind the file's last byte is undefined.
struct ReadRequest {
  const DirectFile* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> out;
};

enum class ReadPriority : uint8_t {
  kDemand,    // somebody waits for it, or soon will
  kPrefetch,  // gives way to every demand
};

struct ReadQueueOptions {
  int depth = 32;          // pieces in flight, [1, 1024]
  int prefetch_depth = 8;  // of these, pieces of prefetches, [1, depth]
  bool allow_io_uring = true;
};

// Requests are read in pieces of this size, so that a demand waits for what is in flight, never for
// a whole prefetch.
inline constexpr size_t kReadPieceBytes = kMiB;

class ReadBackend;
class ReadBatch;

// Reads batches of requests: pieces of demands first, in the order in which they were asked for,
// then pieces of prefetches.
// A queue and its batches belong to one thread at a time, and so does the work of keeping pieces in
// flight: it is done by submit(), by poll() and by whatever waits for a batch. A caller that does
// neither for a while has `depth` pieces read for it meanwhile, and no more.
class ReadQueue {
 public:
  // Fails on numbers out of range, and when the system refuses threads too.
  static Result<std::unique_ptr<ReadQueue>> make(ReadQueueOptions options = {});

  // With a backend of the caller's: for tests. Options as make() asks for them.
  ReadQueue(std::unique_ptr<ReadBackend> backend, const ReadQueueOptions& options,
            std::string note = {});
  ~ReadQueue();  // after its batches
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  std::string_view backend() const;  // "io_uring" or "threads"
  const std::string& note() const;   // what was not done as asked, for the caller's log; or empty

  // Begins to read. Files and memory must stay until the batch has been waited for or is gone.
  // What goes wrong, the batch tells those who wait for it.
  ReadBatch submit(std::span<const ReadRequest> requests,
                   ReadPriority priority = ReadPriority::kDemand);

  // Takes in what has landed and starts what is next, without waiting.
  void poll();

 private:
  friend class ReadBatch;
  class Impl;

  std::unique_ptr<Impl> impl_;
};

// Requests that were submitted together. One that cannot be read fails its batch, whose other
// requests may then stay unread, and no other batch. Move-only. The destructor drops what has not
// begun and waits for the rest: nothing is written to the requests' memory after it.
class ReadBatch {
 public:
  ReadBatch(ReadBatch&& other) noexcept;
  ReadBatch& operator=(ReadBatch&& other) noexcept;
  ~ReadBatch();

  size_t size() const;  // requests

  // Whether wait_for(i) would return at once. Takes in what has landed, as poll() does.
  bool is_done(size_t i);

  // Nobody will wait for it: drops what has not begun. Requests that were not read by then fail.
  void cancel();

  // Somebody will wait for it soon: makes a demand of a prefetch.
  void make_demand();

  // Those that wait make a demand of a prefetch.

  // Waits for all requests; the error of the first that failed.
  Result<void> wait();
  // Waits for request i, or for a failure of the batch that keeps it from being read.
  Result<void> wait_for(size_t i);
  // Waits for a request that it has not returned before, in the order in which they land; nothing
  // when there is none left or the batch has failed: wait() says which.
  std::optional<size_t> wait_next();

 private:
  friend class ReadQueue;
  struct State;
  ReadBatch(ReadQueue::Impl& queue, std::unique_ptr<State> state);

  ReadQueue::Impl* queue_;
  std::unique_ptr<State> state_;  // null: moved from
};

}  // namespace penstock
