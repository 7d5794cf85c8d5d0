#include "os/working_set.h"

#include <algorithm>

#include "base/check.h"
#include "base/integers.h"
#include "base/units.h"

namespace penstock {
namespace {

constexpr uint64_t kOsPage = 4 * kKiB;  // of every x86-64 Windows
// Between minimum and maximum Windows wants room, and some pages a lock are its own book-keeping.
constexpr uint64_t kRoom = 64 * kOsPage;

// Bytes of the OS pages that `bytes` touches.
uint64_t os_page_bytes(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return round_up(begin + bytes.size(), kOsPage) - begin / kOsPage * kOsPage;
}

}  // namespace

Result<void> WorkingSet::grow(uint64_t bytes) {
  PENSTOCK_ASSIGN(WorkingSetLimits limits, calls_.limits());
  limits.minimum_bytes += bytes;
  // Both grow by as much: what else the process keeps in RAM has the room it had.
  limits.maximum_bytes = std::max(limits.maximum_bytes + bytes, limits.minimum_bytes + kRoom);
  return calls_.set_limits(limits);
}

// A refusal leaves limits that are too high, which costs nothing until the process ends.
void WorkingSet::shrink(uint64_t bytes) {
  const auto limits = calls_.limits();
  if (!limits) return;
  (void)calls_.set_limits(
      {.minimum_bytes = limits->minimum_bytes - std::min(bytes, limits->minimum_bytes),
       .maximum_bytes = limits->maximum_bytes - std::min(bytes, limits->maximum_bytes)});
}

Result<void> WorkingSet::lock(std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  const uint64_t n = os_page_bytes(bytes);
  const std::scoped_lock held(mutex_);
  const auto before = calls_.limits();
  if (!before) return std::unexpected(before.error());

  Result<void> done = grow(n + kRoom);
  if (done) {
    done = calls_.lock(bytes);
    if (!done) (void)calls_.set_limits(*before);
  }
  if (done) {
    locked_bytes_ += n;
    return {};
  }
  Error error = done.error();
  error.kind = ErrorKind::kExhausted;
  error.message = fmt::format(
      "cannot lock {} of memory: {}; this process had locked {}, and the minimum of its "
      "working set was {}",
      format_bytes(n), error.message, format_bytes(locked_bytes_),
      format_bytes(before->minimum_bytes));
  error.hint = "close other programs: what is locked must fit the RAM they leave";
  return std::unexpected(std::move(error));
}

void WorkingSet::unlock(std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  const uint64_t n = os_page_bytes(bytes);
  const std::scoped_lock held(mutex_);
  PENSTOCK_CHECK(n <= locked_bytes_, "what is unlocked was locked before");
  // A refusal keeps the pages in RAM until their memory goes: then the limits stay, too.
  if (!calls_.unlock(bytes)) return;
  locked_bytes_ -= n;
  shrink(n + kRoom);
}

uint64_t WorkingSet::locked_bytes() const {
  const std::scoped_lock held(mutex_);
  return locked_bytes_;
}

Error commit_refused(uint64_t wanted_bytes, const Result<CommitState>& state) {
  if (!state) {
    return {ErrorKind::kExhausted, fmt::format("cannot commit {} of memory; {}",
                                               format_bytes(wanted_bytes), state.error().message)};
  }
  Error error = {
      ErrorKind::kExhausted,
      fmt::format("cannot commit {} of memory: of RAM and page file, {} together, {} are "
                  "not promised to anybody yet",
                  format_bytes(wanted_bytes), format_bytes(state->limit_bytes),
                  format_bytes(state->available_bytes))};
  error.hint = "a larger page file raises the limit, and need not be written to";
  return error;
}

}  // namespace penstock
