#include "memory/pin_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/integers.h"

namespace penstock {
namespace {

// What a driver that locks whole OS pages takes for so many bytes.
size_t charged_bytes(size_t bytes) { return round_up(bytes, kPinPageBytes); }

std::span<std::byte> bytes_of(const PinnedMemory& bank, PinGrant grant) {
  return bank.bytes().subspan(grant.begin, grant.end - grant.begin);
}

}  // namespace

// How much to ask for next: half of what was refused, twice what was granted, but never again as
// much as was refused to this bank.
class PinStore::Ladder {
 public:
  Ladder(size_t first_bytes, size_t granularity_bytes)
      : granularity_bytes_(granularity_bytes),
        lowest_bytes_(round_up(kSmallestPinBytes, granularity_bytes)),
        next_bytes_(std::max(lowest_bytes_, first_bytes)) {}

  size_t next_bytes() const { return next_bytes_; }
  // That, or all of `rest_bytes` where they are no more: only a bank's last grant ends unaligned.
  size_t next_of(size_t rest_bytes) const {
    if (rest_bytes <= next_bytes_) return rest_bytes;
    return next_bytes_ / granularity_bytes_ * granularity_bytes_;
  }
  size_t lowest_bytes() const { return lowest_bytes_; }
  bool was_refused() const { return refused_bytes_ != PinOptions::kNoBudget; }

  void grant() {
    if (next_bytes_ < refused_bytes_ - next_bytes_) next_bytes_ *= 2;
  }
  // False: there is no smaller step.
  bool refuse(size_t bytes) {
    refused_bytes_ = bytes;
    if (bytes <= lowest_bytes_) return false;
    next_bytes_ = std::max(lowest_bytes_, bytes / 2);
    return true;
  }

 private:
  size_t granularity_bytes_;
  size_t lowest_bytes_;
  size_t next_bytes_;
  size_t refused_bytes_ = PinOptions::kNoBudget;  // the least of them
};

PinnedMemory::~PinnedMemory() {
  if (store_ != nullptr) store_->give_back(*this);
}

size_t PinnedMemory::pinned_bytes() const {
  size_t bytes = 0;
  for (const PinGrant& grant : grants_) bytes += grant.end - grant.begin;
  return bytes;
}

std::vector<CopyPiece> PinnedMemory::pieces(size_t begin, size_t end) const {
  PENSTOCK_CHECK(begin <= end && end <= bytes().size(), "past the end of a bank");
  std::vector<CopyPiece> pieces;
  const auto add = [&](size_t piece_end, bool is_pinned) {
    if (piece_end <= begin) return;
    pieces.push_back({.begin = begin, .end = piece_end, .is_pinned = is_pinned});
    begin = piece_end;
  };
  auto grant = std::ranges::upper_bound(grants_, begin, {}, &PinGrant::end);
  for (; grant != grants_.end() && grant->begin < end; ++grant) {
    add(grant->begin, /*is_pinned=*/false);
    add(std::min(end, grant->end), /*is_pinned=*/true);
  }
  add(end, /*is_pinned=*/false);
  return pieces;
}

PinStore::PinStore(Driver& driver, PinOptions options, Log log)
    : driver_(driver), options_(options), log_(std::move(log)) {
  PENSTOCK_CHECK(options_.granularity_bytes > 0 && options_.granularity_bytes % kPinPageBytes == 0,
                 "grants begin with an OS page");
}

PinStore::~PinStore() {
  PENSTOCK_CHECK(report_.n_banks == 0, "a bank outlives the store that pinned it");
}

PinnedMemory PinStore::pin(AnonymousMemory memory) {
  const std::lock_guard lock(mutex_);
  PinnedMemory bank(*this, std::move(memory));
  ++report_.n_banks;
  report_.wished_bytes += bank.bytes().size();
  if (options_.is_enabled) pin_chunks(bank);
  return bank;
}

void PinStore::pin_chunks(PinnedMemory& bank) {
  const size_t size = bank.bytes().size();
  Ladder ladder(std::min(size, first_chunk_bytes_), options_.granularity_bytes);
  bool is_spent = false;
  size_t begin = 0;
  for (int64_t n_calls = 0; begin < size && n_calls < kMaxPinCallsPerBank; ++n_calls) {
    const size_t end = affordable_end(begin, begin + ladder.next_of(size - begin));
    if (end == begin) break;
    const PinGrant grant{.begin = begin, .end = end};
    if (try_register(bytes_of(bank, grant))) {
      bank.grants_.push_back(grant);
      ladder.grant();
      begin = end;
    } else if (!ladder.refuse(end - begin)) {
      is_spent = true;
      break;
    }
  }
  report_.n_grants += bank.grants_.size();
  if (is_spent) {
    report_.quota_bytes = report_.registered_bytes;
    first_chunk_bytes_ = ladder.lowest_bytes();
  } else if (ladder.was_refused()) {
    first_chunk_bytes_ = 2 * ladder.next_bytes();  // one look upwards for each bank
  } else {
    first_chunk_bytes_ = std::max(first_chunk_bytes_, ladder.next_bytes());
  }
}

// What the budget leaves of [begin, end): the end of it. What it cuts off begins with an OS page.
size_t PinStore::affordable_end(size_t begin, size_t end) const {
  const size_t left_bytes =
      options_.budget_bytes - std::min(options_.budget_bytes, report_.registered_bytes);
  if (charged_bytes(end - begin) <= left_bytes) return end;
  return begin + left_bytes / options_.granularity_bytes * options_.granularity_bytes;
}

bool PinStore::try_register(std::span<std::byte> chunk) {
  ++report_.n_calls;
  const auto done = settled(driver_, driver_.register_host(chunk));
  if (!done) {
    ++report_.n_refusals;
    report_.last_refusal = done.error().text();
    return false;
  }
  report_.registered_bytes += charged_bytes(chunk.size());
  if (report_.quota_bytes) {
    report_.quota_bytes = std::max(*report_.quota_bytes, report_.registered_bytes);
  }
  return true;
}

bool PinStore::try_unregister(std::span<std::byte> chunk) {
  const auto done = settled(driver_, driver_.unregister_host(chunk.data()));
  if (done) {
    report_.registered_bytes -= charged_bytes(chunk.size());
    return true;
  }
  if (report_.stuck_bytes == 0) {
    log_.warn(
        "the driver does not unregister {} of page-locked memory, which therefore stay allocated "
        "until this process ends, as will others that it refuses: {}",
        format_bytes(chunk.size()), done.error().text());
  }
  report_.stuck_bytes += charged_bytes(chunk.size());
  return false;
}

void PinStore::give_back(PinnedMemory& bank) {
  const std::lock_guard lock(mutex_);
  --report_.n_banks;
  report_.wished_bytes -= bank.bytes().size();
  report_.n_grants -= bank.grants_.size();
  bool is_free = true;
  for (size_t i = bank.grants_.size(); i > 0; --i) {
    is_free &= try_unregister(bytes_of(bank, bank.grants_[i - 1]));
  }
  // Memory that is unmapped while a GPU may read it would be somebody else's by then.
  if (!is_free) bank.memory_.leak();
}

PinReport PinStore::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void PinStore::log_load() const {
  const PinReport report = this->report();
  const std::string line = describe_pins(report, options_);
  if (report.n_refusals > 0 && report.registered_bytes < report.wished_bytes) {
    log_.warn("{}", line);
  } else {
    log_.info("{}", line);
  }
}

std::string describe_pins(const PinReport& report, const PinOptions& options) {
  if (!options.is_enabled) {
    return fmt::format("page-locked none of {} of banks: PENSTOCK_NO_PINNED is set",
                       format_bytes(report.wished_bytes));
  }
  const size_t usable_bytes = report.registered_bytes - report.stuck_bytes;
  std::string line =
      fmt::format("page-locked {} of {} of banks in {} grants", format_bytes(usable_bytes),
                  format_bytes(report.wished_bytes), report.n_grants);
  if (usable_bytes >= report.wished_bytes) return line;
  if (report.quota_bytes) {
    line += fmt::format(
        "; the driver grants no more than {} ({}), and copies from the rest are slower (raise the "
        "limit of locked memory, or ask for no more with --pin-budget {}MiB)",
        format_bytes(*report.quota_bytes), report.last_refusal, *report.quota_bytes / kMiB);
  } else if (options.budget_bytes - std::min(options.budget_bytes, report.registered_bytes) <
             options.granularity_bytes) {
    line += fmt::format("; --pin-budget allows {}", format_bytes(options.budget_bytes));
  } else {
    line += fmt::format("; the driver grants too little at a time ({})", report.last_refusal);
  }
  return line;
}

}  // namespace penstock
