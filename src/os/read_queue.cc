#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "base/check.h"
#include "base/integers.h"
#include "os/direct_io.h"
#include "os/read_backend.h"

namespace penstock {
namespace {

constexpr int kMaxDepth = 1024;
// A read that ends this often in a row without a byte will not end otherwise.
constexpr int kMaxIdleTries = 100;

bool is_aligned(uint64_t n) { return n % kDirectAlignment == 0; }

bool is_worth_another_try(int64_t result) {
  // ECANCELED: the thread that submitted to io_uring has ended meanwhile.
  return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

Error too_short(const DirectFile& file, uint64_t offset, size_t wanted, uint64_t got) {
  return fail(ErrorKind::kIo, "{} is too short: wanted {} bytes from offset {}, got {}",
              file.path().string(), wanted, offset, got)
      .error();
}

// What of `bytes` from `offset` on the file has.
size_t bytes_in_file(const DirectFile& file, uint64_t offset, size_t bytes) {
  return static_cast<size_t>(
      std::min<uint64_t>(bytes, file.size() - std::min(file.size(), offset)));
}

}  // namespace

DirectRange direct_range_around(uint64_t offset, size_t bytes) {
  const auto skip = static_cast<size_t>(offset % kDirectAlignment);
  return {.offset = offset - skip, .bytes = round_up(skip + bytes, kDirectAlignment), .skip = skip};
}

struct ReadBatch::State {
  struct Request {
    ReadRequest what;
    size_t n_started = 0;  // bytes that pieces were made of, from the front
    size_t n_landed = 0;   // bytes of pieces that were read in full
    bool is_read = false;
  };

  bool has_more_to_start() const { return !error && next < requests.size(); }
  bool is_finished() const { return n_in_flight == 0 && !has_more_to_start(); }
  // `bytes` of request i have been read, 0 if it asks for none.
  void land(size_t i, size_t bytes) {
    Request& request = requests[i];
    request.n_landed += bytes;
    if (request.n_landed < request.what.out.size()) return;
    request.is_read = true;
    landed.push_back(i);
  }
  void skip_started() {
    while (next < requests.size() && requests[next].n_started == requests[next].what.out.size()) {
      ++next;
    }
  }

  std::vector<Request> requests;
  ReadPriority priority = ReadPriority::kDemand;
  size_t next = 0;             // the first request of which no piece was made, or not all
  size_t n_in_flight = 0;      // pieces
  std::vector<size_t> landed;  // requests read in full, in that order
  size_t n_told = 0;           // of `landed`, what wait_next() has returned
  std::optional<Error> error;
};

// Pieces have numbers in [0, depth): a piece keeps its number, and with it its place in flight,
// until it has been read in full or failed, in however many reads.
class ReadQueue::Impl {
 public:
  using Batch = ReadBatch::State;

  Impl(std::unique_ptr<ReadBackend> backend, const ReadQueueOptions& options, std::string note);
  ~Impl() { PENSTOCK_CHECK(n_batches_ == 0, "a ReadQueue goes after its batches"); }

  const ReadBackend& backend() const { return *backend_; }
  const std::string& note() const { return note_; }

  std::unique_ptr<Batch> add(std::span<const ReadRequest> requests, ReadPriority priority);
  void remove(Batch& batch);
  void make_demand(Batch& batch);
  void cancel(Batch& batch);
  void advance(bool wait);

 private:
  struct Piece {
    Batch* batch = nullptr;
    size_t request = 0;
    ReadPriority priority = ReadPriority::kDemand;
    uint64_t offset = 0;
    std::span<std::byte> out;
    size_t n_wanted = 0;  // bytes of `out` that the file has
    size_t n_got = 0;     // bytes read; a multiple of kDirectAlignment
    int idle_tries = 0;   // reads in a row that brought nothing
  };

  std::deque<Batch*>& line_of(const Batch& batch) {
    return batch.priority == ReadPriority::kDemand ? demands_ : prefetches_;
  }
  void leave_line(Batch& batch) { std::erase(line_of(batch), &batch); }
  Batch* next_in_line() const;
  void start_pieces();
  void make_piece(Batch& batch, Piece& piece);
  void queue_read(uint32_t id);
  void take_result(PieceResult result);
  static bool keep_and_go_on(Piece& piece, size_t n_new, int64_t result);
  static Error why_it_failed(const Piece& piece, size_t n_new, int64_t result);
  void end_piece(uint32_t id);
  void fail_batch(Batch& batch, Error error);

  std::unique_ptr<ReadBackend> backend_;
  std::string note_;
  size_t prefetch_depth_;
  size_t n_batches_ = 0;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> free_ids_;
  size_t n_prefetch_pieces_ = 0;   // in flight
  std::deque<Batch*> demands_;     // that have more to start
  std::deque<Batch*> prefetches_;  // likewise
  std::vector<PieceRead> reads_;   // to be started with the next call
  std::vector<PieceResult> results_;
};

ReadQueue::Impl::Impl(std::unique_ptr<ReadBackend> backend, const ReadQueueOptions& options,
                      std::string note)
    : backend_(std::move(backend)),
      note_(std::move(note)),
      prefetch_depth_(static_cast<size_t>(options.prefetch_depth)),
      pieces_(std::min(backend_->depth(), static_cast<size_t>(options.depth))) {
  for (size_t id = pieces_.size(); id-- > 0;) free_ids_.push_back(static_cast<uint32_t>(id));
}

std::unique_ptr<ReadBatch::State> ReadQueue::Impl::add(std::span<const ReadRequest> requests,
                                                       ReadPriority priority) {
  auto batch = std::make_unique<Batch>();
  batch->priority = priority;
  for (const ReadRequest& request : requests) {
    const auto address = reinterpret_cast<uintptr_t>(request.out.data());
    PENSTOCK_CHECK(
        is_aligned(request.offset) && is_aligned(request.out.size()) && is_aligned(address),
        "offset, size or address of a direct read is no multiple of its alignment");
    const size_t n_there = bytes_in_file(*request.file, request.offset, request.out.size());
    if (!batch->error && round_up(n_there, kDirectAlignment) < request.out.size()) {
      batch->error = too_short(*request.file, request.offset, request.out.size(), n_there);
    }
    batch->requests.push_back({.what = request});
    if (request.out.empty()) batch->land(batch->requests.size() - 1, 0);
  }
  ++n_batches_;
  batch->skip_started();
  if (batch->has_more_to_start()) line_of(*batch).push_back(batch.get());
  start_pieces();
  return batch;
}

void ReadQueue::Impl::remove(Batch& batch) {
  leave_line(batch);
  batch.next = batch.requests.size();
  while (!batch.is_finished()) advance(/*wait=*/true);
  --n_batches_;
}

void ReadQueue::Impl::make_demand(Batch& batch) {
  if (batch.priority == ReadPriority::kDemand) return;
  leave_line(batch);
  batch.priority = ReadPriority::kDemand;
  if (batch.has_more_to_start()) demands_.push_back(&batch);
  start_pieces();
}

void ReadQueue::Impl::cancel(Batch& batch) {
  const auto is_read = [](const Batch::Request& request) { return request.is_read; };
  if (batch.error || std::ranges::all_of(batch.requests, is_read)) return;
  fail_batch(batch, {.kind = ErrorKind::kCancelled, .message = "a read that was cancelled"});
}

void ReadQueue::Impl::advance(bool wait) {
  results_.clear();
  backend_->collect(wait, results_);
  for (const PieceResult& result : results_) take_result(result);
  start_pieces();
}

ReadBatch::State* ReadQueue::Impl::next_in_line() const {
  if (!demands_.empty()) return demands_.front();
  const bool may_prefetch = n_prefetch_pieces_ < prefetch_depth_;
  return may_prefetch && !prefetches_.empty() ? prefetches_.front() : nullptr;
}

// Starts what take_result() wants read on, and new pieces as far as there is room.
void ReadQueue::Impl::start_pieces() {
  while (!free_ids_.empty()) {
    Batch* const batch = next_in_line();
    if (batch == nullptr) break;
    const uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    make_piece(*batch, pieces_[id]);
    queue_read(id);
    if (!batch->has_more_to_start()) leave_line(*batch);
  }
  if (!reads_.empty()) backend_->start(reads_);
  reads_.clear();
}

void ReadQueue::Impl::make_piece(Batch& batch, Piece& piece) {
  Batch::Request& request = batch.requests[batch.next];
  const size_t begin = request.n_started;
  const size_t bytes = std::min(request.what.out.size() - begin, kReadPieceBytes);
  piece = {.batch = &batch,
           .request = batch.next,
           .priority = batch.priority,
           .offset = request.what.offset + begin,
           .out = request.what.out.subspan(begin, bytes)};
  piece.n_wanted = bytes_in_file(*request.what.file, piece.offset, bytes);
  request.n_started += bytes;
  batch.skip_started();
  ++batch.n_in_flight;
  if (piece.priority == ReadPriority::kPrefetch) ++n_prefetch_pieces_;
}

void ReadQueue::Impl::queue_read(uint32_t id) {
  const Piece& piece = pieces_[id];
  reads_.push_back({.id = id,
                    .file = piece.batch->requests[piece.request].what.file,
                    .offset = piece.offset + piece.n_got,
                    .out = piece.out.subspan(piece.n_got)});
}

void ReadQueue::Impl::take_result(PieceResult result) {
  Piece& piece = pieces_[result.id];
  Batch& batch = *piece.batch;
  const size_t n_new = result.result > 0 ? static_cast<size_t>(result.result) : 0;
  if (piece.n_got + n_new >= piece.n_wanted) {
    batch.land(piece.request, piece.out.size());
  } else if (!batch.error) {
    if (keep_and_go_on(piece, n_new, result.result)) return queue_read(result.id);
    fail_batch(batch, why_it_failed(piece, n_new, result.result));
  }
  end_piece(result.id);
}

// Keeps what a short read brought as far as a direct read can go on behind it. Says whether to.
bool ReadQueue::Impl::keep_and_go_on(Piece& piece, size_t n_new, int64_t result) {
  const size_t n_kept = n_new - n_new % kDirectAlignment;
  piece.n_got += n_kept;
  piece.idle_tries = n_kept > 0 ? 0 : piece.idle_tries + 1;
  return (n_new > 0 || is_worth_another_try(result)) && piece.idle_tries < kMaxIdleTries;
}

Error ReadQueue::Impl::why_it_failed(const Piece& piece, size_t n_new, int64_t result) {
  const DirectFile& file = *piece.batch->requests[piece.request].what.file;
  if (result >= 0) return too_short(file, piece.offset, piece.n_wanted, piece.n_got + n_new);
  Error error = Error::from_errno(static_cast<int>(-result), "read", file.path());
  error.message += fmt::format(": wanted {} bytes from offset {}, got {}", piece.n_wanted,
                               piece.offset, piece.n_got);
  return error;
}

void ReadQueue::Impl::end_piece(uint32_t id) {
  --pieces_[id].batch->n_in_flight;
  if (pieces_[id].priority == ReadPriority::kPrefetch) --n_prefetch_pieces_;
  free_ids_.push_back(id);
}

void ReadQueue::Impl::fail_batch(Batch& batch, Error error) {
  batch.error = std::move(error);
  leave_line(batch);
}

Result<std::unique_ptr<ReadQueue>> ReadQueue::make(ReadQueueOptions options) {
  if (options.depth < 1 || options.depth > kMaxDepth || options.prefetch_depth < 1 ||
      options.prefetch_depth > options.depth) {
    return fail(ErrorKind::kInvalidArgument,
                "a read queue has a depth in [1, {}] and a prefetch depth in [1, depth], got {} "
                "and {}",
                kMaxDepth, options.depth, options.prefetch_depth);
  }
  const auto depth = static_cast<size_t>(options.depth);
  std::string note;
  if (options.allow_io_uring) {
    auto uring = make_uring_backend(depth);
    if (uring) return std::make_unique<ReadQueue>(*std::move(uring), options);
    note = uring.error().message;
  }
  PENSTOCK_ASSIGN(auto threads, make_thread_backend(depth));
  if (!note.empty()) note += fmt::format("; {} threads read instead", threads->depth());
  return std::make_unique<ReadQueue>(std::move(threads), options, std::move(note));
}

ReadQueue::ReadQueue(std::unique_ptr<ReadBackend> backend, const ReadQueueOptions& options,
                     std::string note)
    : impl_(std::make_unique<Impl>(std::move(backend), options, std::move(note))) {}

ReadQueue::~ReadQueue() = default;

std::string_view ReadQueue::backend() const { return impl_->backend().name(); }

const std::string& ReadQueue::note() const { return impl_->note(); }

ReadBatch ReadQueue::submit(std::span<const ReadRequest> requests, ReadPriority priority) {
  return ReadBatch(*impl_, impl_->add(requests, priority));
}

void ReadQueue::poll() { impl_->advance(/*wait=*/false); }

ReadBatch::ReadBatch(ReadQueue::Impl& queue, std::unique_ptr<State> state)
    : queue_(&queue), state_(std::move(state)) {}

ReadBatch::ReadBatch(ReadBatch&& other) noexcept = default;

ReadBatch& ReadBatch::operator=(ReadBatch&& other) noexcept {
  std::swap(queue_, other.queue_);
  std::swap(state_, other.state_);
  return *this;
}

ReadBatch::~ReadBatch() {
  if (state_) queue_->remove(*state_);
}

size_t ReadBatch::size() const { return state_->requests.size(); }

bool ReadBatch::is_done(size_t i) {
  queue_->advance(/*wait=*/false);
  return state_->requests[i].is_read || state_->is_finished();
}

void ReadBatch::cancel() { queue_->cancel(*state_); }

void ReadBatch::make_demand() { queue_->make_demand(*state_); }

Result<void> ReadBatch::wait() {
  queue_->make_demand(*state_);
  while (!state_->is_finished()) queue_->advance(/*wait=*/true);
  if (state_->error) return std::unexpected(*state_->error);
  return {};
}

Result<void> ReadBatch::wait_for(size_t i) {
  queue_->make_demand(*state_);
  while (!state_->requests[i].is_read && !state_->is_finished()) queue_->advance(/*wait=*/true);
  if (!state_->requests[i].is_read) return std::unexpected(*state_->error);
  return {};
}

std::optional<size_t> ReadBatch::wait_next() {
  queue_->make_demand(*state_);
  while (state_->n_told == state_->landed.size() && !state_->is_finished()) {
    queue_->advance(/*wait=*/true);
  }
  if (state_->n_told == state_->landed.size()) return std::nullopt;
  return state_->landed[state_->n_told++];
}

}  // namespace penstock
