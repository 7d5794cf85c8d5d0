#include <liburing.h>

#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "base/check.h"
#include "os/read_backend.h"

namespace penstock {
namespace {

struct RingExit {
  void operator()(io_uring* ring) const {
    ::io_uring_queue_exit(ring);
    delete ring;
  }
};
using Ring = std::unique_ptr<io_uring, RingExit>;

struct ProbeFree {
  void operator()(io_uring_probe* probe) const { ::io_uring_free_probe(probe); }
};

class UringBackend final : public ReadBackend {
 public:
  UringBackend(Ring ring, size_t depth) : ring_(std::move(ring)), depth_(depth) {}

  std::string_view name() const override { return "io_uring"; }
  size_t depth() const override { return depth_; }

  void start(std::span<const PieceRead> reads) override {
    for (const PieceRead& read : reads) {
      io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
      PENSTOCK_CHECK(entry != nullptr, "more reads in flight than the ring was made for");
      ::io_uring_prep_read(entry, static_cast<int>(read.file->handle()), read.out.data(),
                           static_cast<unsigned>(read.out.size()), read.offset);
      ::io_uring_sqe_set_data64(entry, read.id);
    }
    enter(/*n_wanted=*/0);
  }

  void collect(bool wait, std::vector<PieceResult>& results) override {
    if (::io_uring_sq_ready(ring_.get()) > 0) enter(/*n_wanted=*/0);
    take_completions(results);
    while (wait && results.empty()) {
      enter(/*n_wanted=*/1);
      take_completions(results);
    }
  }

 private:
  // Submits what is ready and waits for results. What the kernel has no memory for now stays in
  // the ring, and collect() tries again.
  void enter(unsigned n_wanted) {
    const int code = ::io_uring_submit_and_wait(ring_.get(), n_wanted);
    PENSTOCK_CHECK(code >= 0 || code == -EINTR || code == -EAGAIN || code == -EBUSY,
                   "io_uring stopped working");
    if (code == -EAGAIN || code == -EBUSY) std::this_thread::yield();
  }

  void take_completions(std::vector<PieceResult>& results) {
    unsigned head = 0;
    unsigned n_seen = 0;
    io_uring_cqe* completion = nullptr;
    io_uring_for_each_cqe(ring_.get(), head, completion) {
      results.push_back({.id = static_cast<uint32_t>(::io_uring_cqe_get_data64(completion)),
                         .result = completion->res});
      ++n_seen;
    }
    ::io_uring_cq_advance(ring_.get(), n_seen);
  }

  Ring ring_;
  size_t depth_;
};

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_uring_backend(size_t depth) {
  auto unset = std::make_unique<io_uring>();
  const int code = ::io_uring_queue_init(static_cast<unsigned>(depth), unset.get(), /*flags=*/0);
  if (code < 0) return std::unexpected(Error::from_errno(-code, "set up", "io_uring"));
  Ring ring(unset.release());
  const std::unique_ptr<io_uring_probe, ProbeFree> probe(::io_uring_get_probe_ring(ring.get()));
  if (!probe || ::io_uring_opcode_supported(probe.get(), IORING_OP_READ) == 0) {
    return fail(ErrorKind::kUnsupported, "this kernel's io_uring has no plain reads");
  }
  return std::make_unique<UringBackend>(std::move(ring), depth);
}

}  // namespace penstock
